package plan

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/stable"
)

// Confident is the smallest cluster that meets the objectives in the target share of
// resamples. It may miss them on the workload as recorded.
type Confident struct {
	Share float64 // the target: of the resamples
	Found bool
	Shape Shape // the largest tried when none is found
	Met   int   // resamples in which Shape meets
	At    Measure
	// Values are those of each objective over the resamples, with Shape.
	Values []Range
}

// seeksConfident reports whether every variant is held to resamples.
func (c *Config) seeksConfident() bool { return c.Confidence > 0 && c.Resamples > 0 }

// resamplesNeeded returns in how many resamples a cluster must meet.
func (c *Config) resamplesNeeded() int {
	return int(math.Ceil(c.Confidence*float64(c.Resamples) - 1e-9))
}

// resample holds the answer to resamples: its cluster where that is given, clusters of all
// sizes where it is searched for. The resamples of a workload and the errors of its pass
// times are the same for all variants.
func (c *Config) resample(ctx context.Context, b *bench, a *Answer) (err error) {
	if !c.seeksConfident() {
		return nil
	}
	s := c.newTargetSearch(b, a.Variant)
	if c.Variants[a.Variant].Fixed.Size() > 0 {
		a.ResamplesMet, err = s.countMet(ctx, a.Shape)
		return err
	}
	spare := 1
	if a.Shape.Split() {
		spare = 3 // splits of one size are ranked by the probes
	}
	if err := s.chooseProbes(ctx, a.Shape, spare); err != nil {
		return err
	}
	f := &Confident{Share: c.Confidence}
	if a.Shape.Split() {
		err = s.growPools(ctx, a, f)
	} else {
		err = s.growPool(ctx, a, f)
	}
	if err != nil {
		return err
	}
	a.Confident = f
	return s.describe(ctx, f)
}

// targetSearch looks for the smallest cluster of a variant that meets in enough resamples.
type targetSearch struct {
	*Config
	bench   *bench
	variant int
	need    int // resamples in which a cluster must meet
	// probes are the resamples that a cluster is run on first, more than it may miss: the
	// resamples that the answer's cluster missed by most.
	probes []int
}

func (c *Config) newTargetSearch(b *bench, variant int) *targetSearch {
	s := &targetSearch{Config: c, bench: b, variant: variant, need: c.resamplesNeeded()}
	for sample := 1; sample <= c.Resamples; sample++ {
		s.probes = append(s.probes, sample)
	}
	return s
}

// chooseProbes orders the resamples and keeps spare more than a cluster may miss.
func (s *targetSearch) chooseProbes(ctx context.Context, shape Shape, spare int) error {
	all, err := s.measureOn(ctx, s.probes, shape)
	if err != nil {
		return err
	}
	stable.Sort(s.probes, func(a, b int) int { return cmp.Compare(all[b-1].shortfall(), all[a-1].shortfall()) })
	s.probes = s.probes[:min(s.Resamples, s.Resamples-s.need+spare)]
	return nil
}

// growPool finds the size of one pool. The search goes up and down from the minimum for
// the workload as recorded. Smaller clusters are then run until each has missed more
// resamples than it may, since more workers may be worse.
func (s *targetSearch) growPool(ctx context.Context, a *Answer, f *Confident) error {
	if !a.Found { // there is no size to start from
		n, err := findSmallest(ctx, s.Most, s.meetTarget)
		if f.Shape, f.Found = One(n), n > 0; n == 0 {
			f.Shape = a.Shape
		}
		return err
	}
	met := whichMeet(s.meetTarget)
	near, below := a.Shape.Workers, exhaustive
	if v := &s.Variants[a.Variant]; v.Near.Size() > 0 {
		near, below = v.Near.Workers, fewBelow
	}
	n, err := met.findNear(ctx, near, s.Most)
	if err != nil {
		return err
	}
	ok, err := met(ctx, []int{n}) // the largest is not known to meet
	if err != nil {
		return err
	}
	if f.Shape, f.Found = One(n), ok[0]; f.Found {
		n, err = met.checkBelow(ctx, n, below)
		f.Shape = One(n)
	}
	return err
}

// meetTarget reports which sizes of one pool meet in enough resamples. A size that misses
// too many of the probes is not run on the other resamples.
func (s *targetSearch) meetTarget(ctx context.Context, sizes []int) ([]bool, error) {
	shapes := make([]Shape, len(sizes))
	for i, n := range sizes {
		shapes[i] = One(n)
	}
	probed, err := s.measureOn(ctx, s.probes, shapes...)
	if err != nil {
		return nil, err
	}
	var rest []Shape
	ok := make([]bool, len(sizes))
	for i := range shapes {
		missed := 0
		for _, m := range probed[i*len(s.probes) : (i+1)*len(s.probes)] {
			if !m.Met {
				missed++
			}
		}
		if ok[i] = missed <= s.Resamples-s.need; ok[i] {
			rest = append(rest, shapes[i])
		}
	}
	if _, err := s.measureOn(ctx, s.allSamples(), rest...); err != nil {
		return nil, err
	}
	for i := range shapes {
		if !ok[i] {
			continue
		}
		met, err := s.countMet(ctx, shapes[i])
		if err != nil {
			return nil, err
		}
		ok[i] = met >= s.need
	}
	return ok, nil
}

// describe fills in what the cluster of f does in the resamples and on the workload as
// recorded.
func (s *targetSearch) describe(ctx context.Context, f *Confident) (err error) {
	resampled, err := s.measureOn(ctx, s.allSamples(), f.Shape)
	if err != nil {
		return err
	}
	f.Met, f.Values = countMeeting(resampled), rangesOf(resampled)
	all, err := s.bench.measure(ctx, Point{Variant: s.variant, Shape: f.Shape, Load: 1})
	if err != nil {
		return err
	}
	f.At = *all[0]
	return nil
}

func (s *targetSearch) allSamples() []int {
	all := make([]int, s.Resamples)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

// countMet counts the resamples in which a cluster meets.
func (s *targetSearch) countMet(ctx context.Context, shape Shape) (int, error) {
	all, err := s.measureOn(ctx, s.allSamples(), shape)
	return countMeeting(all), err
}

// countMeeting returns how many measures meet the objectives.
func countMeeting(all []*Measure) (met int) {
	for _, m := range all {
		if m.Met {
			met++
		}
	}
	return met
}

// rangesOf returns where the middle 90 % of measures lie, for each objective.
func rangesOf(all []*Measure) []Range {
	ranges := make([]Range, len(all[0].Values))
	for k := range ranges {
		values := make([]float64, len(all))
		for i, m := range all {
			values[i] = m.Values[k].Value
		}
		ranges[k] = newRange(values)
	}
	return ranges
}

// measureOn measures shapes on resamples, shape by shape.
func (s *targetSearch) measureOn(ctx context.Context, samples []int, shapes ...Shape) ([]*Measure, error) {
	var points []Point
	for _, shape := range shapes {
		for _, sample := range samples {
			points = append(points, Point{Variant: s.variant, Shape: shape, Load: 1, Sample: sample})
		}
	}
	return s.bench.measure(ctx, points...)
}

// checkCheaper runs every cluster of one pool that would be better than the best until it
// has missed too many resamples, and makes one that has not the best. After it no size of
// any variant beats the best. When no cluster is known to meet the target, the exhaustive
// smallest of each variant are run.
func (c *Config) checkCheaper(ctx context.Context, b *bench, p *Plan) error {
	for again := c.seeksConfident(); again; {
		again = false
		limit := p.leastConfident()
		for i := range p.Answers {
			a := &p.Answers[i]
			if a.Confident == nil || a.Shape.Split() {
				continue
			}
			s := c.newTargetSearch(b, i)
			if err := s.chooseProbes(ctx, a.Shape, 1); err != nil {
				return err
			}
			n, err := s.findCheaper(ctx, p, limit)
			if err != nil {
				return err
			}
			if n > 0 {
				a.Confident.Shape, a.Confident.Found, again = One(n), true, true
				if err := s.describe(ctx, a.Confident); err != nil {
					return err
				}
			}
		}
		c.chooseBest(p)
	}
	return nil
}

// leastConfident returns the burden of the best cluster that meets the target, +Inf without
// one.
func (p *Plan) leastConfident() float64 {
	least := math.Inf(1)
	for i := range p.Answers {
		if f := p.Answers[i].Confident; f != nil && f.Found {
			least = min(least, p.burden(i, f.Shape))
		}
	}
	return least
}

// findCheaper returns the smallest size with less than a burden that meets, 0 when there
// is none.
func (s *targetSearch) findCheaper(ctx context.Context, p *Plan, burden float64) (int, error) {
	most := s.Most
	if math.IsInf(burden, 1) {
		most = min(most, exhaustive)
	}
	var sizes []int
	for n := 1; n <= most; n++ {
		if p.burden(s.variant, One(n)) < burden {
			sizes = append(sizes, n)
		}
	}
	ok, err := s.meetTarget(ctx, sizes)
	if i := slices.Index(ok, true); err == nil && i >= 0 {
		return sizes[i], nil
	}
	return 0, err
}
