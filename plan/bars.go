package plan

import (
	"context"
	"slices"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/replay/collector"
)

// Bars are the error bars of an answer: the answers for other workloads that could have been recorded as well.
type Bars struct {
	Resamples int
	Met       int     // number of resamples in which the answer's cluster meets
	Values    []Range // of each objective, with the answer's cluster
	// SmallerMet is the number of resamples in which each cluster of Answer.Smaller meets.
	SmallerMet []int
	// Workers is the range of the smallest cluster, for one pool. Workers is nil for two pools, and for a given
	// cluster.
	Workers *Range
	// Load is the range of the highest load of the answer's cluster; nil if no resample has one.
	Load *Range
}

// Range is the range of the middle 90 % of resamples.
type Range struct {
	P5     float64 `json:"p5"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
}

// Chance is the number of resamples in which a cluster meets.
type Chance struct {
	Shape Shape
	Met   int
}

// mostChances is the maximum number of sizes for which the chance is measured.
const mostChances = 6

// measureChances measures the share of resamples in which clusters near the recommended one meet. For one pool these
// have from the minimum for the recorded workload to one worker more than recommended. For two pools these are the
// minimum and the recommended cluster.
func (c *Config) measureChances(ctx context.Context, b *bench, a *Answer) error {
	f := a.Confident
	if f == nil || !f.Found {
		return nil
	}
	shapes := []Shape{f.Shape}
	switch {
	case !a.Found:
	case a.Shape.Split():
		if a.Shape != f.Shape {
			shapes = []Shape{a.Shape, f.Shape}
		}
	default:
		shapes = nil
		low, high := min(a.Shape.Workers, f.Shape.Workers-1), min(f.Shape.Workers+1, c.Most)
		for _, n := range spreadBetween(max(low, 1)-1, high+1, mostChances) {
			shapes = append(shapes, One(n))
		}
		if i := slices.Index(shapes, f.Shape); i < 0 {
			shapes = append(shapes, f.Shape)
			stable.Sort(shapes, func(a, b Shape) int { return a.Workers - b.Workers })
		}
	}
	s := c.newTargetSearch(b, a.Variant)
	if _, err := s.measureOn(ctx, s.allSamples(), shapes...); err != nil {
		return err
	}
	for _, shape := range shapes {
		met, err := s.countMet(ctx, shape)
		if err != nil {
			return err
		}
		a.Chances = append(a.Chances, Chance{shape, met})
	}
	return nil
}

// newRange sorts values and returns their range. There must be at least one value.
func newRange(values []float64) Range {
	slices.Sort(values)
	at := func(p float64) float64 { return values[collector.NearestRank(int64(len(values)), p)] }
	return Range{P5: at(5), Median: at(50), P95: at(95)}
}

// barPrecision is the precision of the highest load of a resample.
const barPrecision = 0.05

// measureBars runs resamples on the answer's cluster, and searches the smallest cluster and the highest load of each
// resample.
func (c *Config) measureBars(ctx context.Context, b *bench, a *Answer) (*Bars, error) {
	bars := &Bars{Resamples: c.Resamples}
	near := c.Variants[a.Variant].Near.Size() > 0
	if !near {
		bars.SmallerMet = make([]int, len(a.Smaller))
	}
	if err := c.resampleCluster(ctx, b, a, bars); err != nil || near {
		return bars, err
	}
	forks := make([]*bench, c.Resamples) // one bench per search
	var workers, loads []float64
	sizes, highest := make([]int, c.Resamples), make([]*Measure, c.Resamples)
	err := Each(ctx, c.Resamples, b.cores, func(ctx context.Context, i int) (err error) {
		own := b.fork(i + 1)
		forks[i] = own
		at := Point{Variant: a.Variant, Shape: a.Shape, Load: 1, Sample: i + 1}
		if c.Variants[a.Variant].Fixed.Size() == 0 && !a.Shape.Split() {
			if sizes[i], err = (&search{bench: own, at: at}).sizes(One).findNear(ctx, a.Shape.Workers, c.Most); err != nil {
				return err
			}
		}
		if a.Highest != nil {
			at.Load = a.Highest.Load
		}
		highest[i], _, err = own.findHighest(ctx, at, nearLadder(barPrecision))
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, own := range forks {
		b.adopt(own)
		if sizes[i] > 0 {
			workers = append(workers, float64(sizes[i]))
		}
		if highest[i] != nil {
			loads = append(loads, highest[i].Load)
		}
	}
	bars.Workers, bars.Load = rangeOf(workers), rangeOf(loads)
	return bars, nil
}

func rangeOf(values []float64) *Range {
	if len(values) == 0 {
		return nil
	}
	r := newRange(values)
	return &r
}

// resampleCluster runs the answer's cluster, and the clusters with one worker less, on all resamples.
func (c *Config) resampleCluster(ctx context.Context, b *bench, a *Answer, bars *Bars) error {
	clusters := []Shape{a.Shape}
	for i := range bars.SmallerMet {
		clusters = append(clusters, a.Smaller[i].Shape)
	}
	var points []Point
	for sample := 1; sample <= c.Resamples; sample++ {
		for _, shape := range clusters {
			points = append(points, Point{Variant: a.Variant, Shape: shape, Load: 1, Sample: sample})
		}
	}
	all, err := b.measure(ctx, points...)
	if err != nil {
		return err
	}
	own := make([]*Measure, 0, c.Resamples)
	for i, m := range all {
		cluster := i % len(clusters)
		if cluster > 0 {
			if m.Met {
				bars.SmallerMet[cluster-1]++
			}
			continue
		}
		own = append(own, m)
	}
	bars.Met, bars.Values = countMeeting(own), rangesOf(own)
	return nil
}

// fork returns a bench for one goroutine. The new bench starts with the measures of b on a sample.
func (b *bench) fork(sample int) *bench {
	own := newBench(b.run, 1)
	own.meter = b.meter
	for _, p := range b.order {
		if p.Sample == sample {
			own.measures[p] = b.measures[p]
		}
	}
	return own
}

// adopt adds the measures of another bench.
func (b *bench) adopt(other *bench) {
	for _, p := range other.order {
		if _, seen := b.measures[p]; !seen {
			b.order = append(b.order, p)
			b.measures[p] = other.measures[p]
		}
	}
}
