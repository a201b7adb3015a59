package plan

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/stable"
)

// Confident is the smallest cluster that meets the objectives in the target share of resamples. Confident may miss
// the objectives on the workload as recorded.
type Confident struct {
	Share float64 // the target: of the resamples
	Found bool
	Shape Shape // the largest tried when none is found
	Met   int   // number of resamples in which Shape meets
	At    Measure
	// Values are the ranges of each objective over the resamples, for Shape.
	Values []Range
}

// seeksConfident reports whether every variant is checked on resamples.
func (c *Config) seeksConfident() bool { return c.Confidence > 0 && c.Resamples > 0 }

// resamplesNeeded returns the number of resamples in which a cluster must meet.
func (c *Config) resamplesNeeded() int {
	return int(math.Ceil(c.Confidence*float64(c.Resamples) - 1e-9))
}

// resample checks the answer on resamples: a given cluster, or clusters of all sizes in a search. All variants use
// the same resamples of the workload and the same errors of pass times.
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

// targetSearch searches the smallest cluster of a variant that meets in enough resamples.
type targetSearch struct {
	*Config
	bench   *bench
	variant int
	need    int // resamples in which a cluster must meet
	// probes are the resamples that a cluster is run on first: the resamples that the answer's cluster missed by
	// most. The number of probes is larger than the number of misses that a cluster may have.
	probes []int
}

func (c *Config) newTargetSearch(b *bench, variant int) *targetSearch {
	s := &targetSearch{Config: c, bench: b, variant: variant, need: c.resamplesNeeded()}
	for sample := 1; sample <= c.Resamples; sample++ {
		s.probes = append(s.probes, sample)
	}
	return s
}

// chooseProbes orders the resamples. The number of probes is the number of allowed misses plus spare.
func (s *targetSearch) chooseProbes(ctx context.Context, shape Shape, spare int) error {
	all, err := s.measureOn(ctx, s.probes, shape)
	if err != nil {
		return err
	}
	stable.Sort(s.probes, func(a, b int) int { return cmp.Compare(all[b-1].shortfall(), all[a-1].shortfall()) })
	s.probes = s.probes[:min(s.Resamples, s.Resamples-s.need+spare)]
	return nil
}

// growPool searches the size of one pool, upwards and downwards from the minimum for the recorded workload. Then
// growPool runs each smaller cluster until the cluster has missed too many resamples, since more workers may be
// worse.
func (s *targetSearch) growPool(ctx context.Context, a *Answer, f *Confident) error {
	if !a.Found { // there is no start size
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
	ok, err := met(ctx, []int{n}) // it is unknown whether the largest size meets
	if err != nil {
		return err
	}
	if f.Shape, f.Found = One(n), ok[0]; f.Found {
		n, err = met.checkBelow(ctx, n, below)
		f.Shape = One(n)
	}
	return err
}

// meetTarget reports which sizes of one pool meet in enough resamples. A size that misses too many of the probes is
// not run on the other resamples.
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

// describe sets the results of the cluster of f in the resamples and on the recorded workload.
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

// countMet returns the number of resamples in which a cluster meets.
func (s *targetSearch) countMet(ctx context.Context, shape Shape) (int, error) {
	all, err := s.measureOn(ctx, s.allSamples(), shape)
	return countMeeting(all), err
}

// countMeeting returns the number of measures that meet the objectives.
func countMeeting(all []*Measure) (met int) {
	for _, m := range all {
		if m.Met {
			met++
		}
	}
	return met
}

// rangesOf returns the range of the middle 90 % of measures, for each objective.
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

// checkCheaper runs every one-pool cluster that would be better than the best answer, until it has missed too many
// resamples. If a cluster has not missed too many resamples, it becomes the best. Afterwards no size of any variant
// is better than the best. If no cluster meets the target, checkCheaper runs the exhaustive smallest sizes of each
// variant.
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

// leastConfident returns the burden of the best cluster that meets the target, +Inf if there is none.
func (p *Plan) leastConfident() float64 {
	least := math.Inf(1)
	for i := range p.Answers {
		if f := p.Answers[i].Confident; f != nil && f.Found {
			least = min(least, p.burden(i, f.Shape))
		}
	}
	return least
}

// findCheaper returns the smallest size that meets and has less than a given burden, 0 if there is none.
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
