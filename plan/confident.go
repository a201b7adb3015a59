package plan

import (
	"context"
	"math"
)

// Confident is the smallest cluster that meets in most resamples, not only on the
// workload as it was recorded.
type Confident struct {
	Share float64 // of the resamples, that were to meet
	Found bool
	Shape Shape // the largest tried when none is found
	Met   int   // resamples in which Shape meets
	At    Measure
}

// findConfident finds the smallest cluster that meets in the wanted share of resamples.
// sizes are those of the smallest clusters of one pool of single resamples, 0 where there
// is none.
func (c *Config) findConfident(ctx context.Context, b *bench, a *Answer, sizes []int) (*Confident, error) {
	f := &Confident{Share: c.Confidence}
	find := func() error { return c.growPool(ctx, b, a, f, sizes) }
	if a.Shape.Split() {
		s := &splitSearch{Config: c, bench: b, variant: a.Variant, need: c.resamplesNeeded()}
		find = func() error { return s.growPools(ctx, a, f) }
	}
	if err := find(); err != nil {
		return nil, err
	}
	all, err := b.measure(ctx, Point{Variant: a.Variant, Shape: f.Shape, Load: 1})
	if err != nil {
		return nil, err
	}
	f.At = *all[0]
	return f, nil
}

// resampleRivals looks, where GPUs of different prices are compared, for confident clusters
// of the other answers as long as one costs less on the workload as recorded than the
// best does that holds in most resamples, and makes the cheapest the best.
func (c *Config) resampleRivals(ctx context.Context, b *bench, p *Plan) error {
	for p.ByCost && p.Best >= 0 && p.Answers[p.Best].Confident != nil {
		best := &p.Answers[p.Best]
		var rival *Answer
		for i := range p.Answers {
			a := &p.Answers[i]
			if a.Found && a.Bars == nil && p.costsLess(a, a.Shape, best) && (rival == nil || p.isBetter(a, rival)) {
				rival = a
			}
		}
		if rival == nil {
			return nil
		}
		bars, err := c.measureBars(ctx, b, rival)
		if err != nil {
			return err
		}
		if rival.Bars = bars; rival.Confident != nil && rival.Confident.Found && p.costsLess(rival, rival.Confident.Shape, best) {
			p.Best = rival.Variant
		}
	}
	return nil
}

// costsLess reports whether a cluster costs less than the confident one of the best
// answer, if there is one.
func (p *Plan) costsLess(a *Answer, shape Shape, best *Answer) bool {
	return !best.Confident.Found || p.burden(a.Variant, shape) < p.burden(best.Variant, best.Confident.Shape)
}

// resamplesNeeded returns in how many resamples a cluster is to meet.
func (c *Config) resamplesNeeded() int {
	return int(math.Ceil(c.Confidence*float64(c.Resamples) - 1e-9))
}

// growPool finds the size of one pool. It begins where as many of the resamples have
// clusters as large, and runs every cluster it names on every resample, since more
// workers may be worse.
func (c *Config) growPool(ctx context.Context, b *bench, a *Answer, f *Confident, sizes []int) error {
	need := c.resamplesNeeded()
	try := func(workers int) (bool, error) {
		f.Shape = One(workers)
		met, err := c.countMet(ctx, b, a.Variant, f.Shape)
		f.Met, f.Found = met, met >= need
		return f.Found, err
	}
	workers := max(a.Shape.Workers, sizeAt(sizes, need, c.Most))
	ok, err := try(workers)
	for ; err == nil && !ok && workers < c.Most; ok, err = try(workers) {
		workers++
	}
	for err == nil && ok && workers > a.Shape.Workers {
		if ok, err = try(workers - 1); ok {
			workers--
		}
	}
	if err == nil && !f.Found {
		_, err = try(workers)
	}
	return err
}

// sizeAt returns a size that need of the sizes do not exceed, or most when there are
// fewer.
func sizeAt(sizes []int, need, most int) int {
	for size := 1; size <= most; size++ {
		within := 0
		for _, s := range sizes {
			if s > 0 && s <= size {
				within++
			}
		}
		if within >= need {
			return size
		}
	}
	return most
}

// countMet counts the resamples in which a cluster meets.
func (c *Config) countMet(ctx context.Context, b *bench, variant int, shape Shape) (int, error) {
	var points []Point
	for sample := 1; sample <= c.Resamples; sample++ {
		points = append(points, Point{Variant: variant, Shape: shape, Load: 1, Sample: sample})
	}
	all, err := b.measure(ctx, points...)
	if err != nil {
		return 0, err
	}
	met := 0
	for _, m := range all {
		if m.Met {
			met++
		}
	}
	return met, nil
}
