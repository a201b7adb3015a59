package plan

import (
	"cmp"
	"context"
	"slices"
	"sort"
)

// Row is a cluster at a load, in the Pareto front.
type Row struct {
	Measure
	GPUs   int
	burden float64 // cost an hour where GPUs of different prices are compared, or else GPUs
}

// frontShares returns the shares of a cluster's highest load at which the front shows the cluster.
func frontShares() []float64 { return []float64{0.5, 0.75, 1} }

// frontPrecision is the precision of the highest loads in the front.
const frontPrecision = 0.02

// measureFront measures clusters of half to twice the size of the answers, each at several shares of its highest
// load.
func (c *Config) measureFront(ctx context.Context, b *bench, p *Plan) ([]Row, error) {
	var starts []Point
	var known []*Measure // by start: its highest load, where that was found
	for i := range p.Answers {
		a := &p.Answers[i]
		if a.Refused != nil || !a.Found && c.Variants[i].Fixed.Size() == 0 {
			continue
		}
		for _, shape := range shapesAround(a.Shape, c.Variants[i].Fixed.Size() > 0, c.Most) {
			start, highest := Point{Variant: i, Shape: shape, Load: 1}, (*Measure)(nil)
			if a.Highest != nil {
				start.Load = a.Highest.Load * growthOf(a.Shape, shape)
			}
			if shape == a.Shape && c.Precision <= frontPrecision {
				highest = a.Highest
			}
			starts, known = append(starts, start), append(known, highest)
		}
	}
	forks := make([]*bench, len(starts))
	tops := make([][]*Measure, len(starts))
	err := Each(ctx, len(starts), b.cores, func(ctx context.Context, i int) error {
		forks[i] = b.fork(0)
		top := known[i]
		if top == nil {
			var err error
			if top, _, err = forks[i].findHighest(ctx, starts[i], nearLadder(frontPrecision)); err != nil || top == nil {
				return err
			}
		}
		at := make([]float64, 0, len(frontShares()))
		for _, share := range frontShares() {
			at = append(at, top.Load*share)
		}
		all, err := forks[i].measureAt(ctx, top.Point, at...)
		tops[i] = all
		return err
	})
	if err != nil {
		return nil, err
	}
	var rows []Row
	add := func(m *Measure) {
		if m.Met {
			rows = append(rows, Row{Measure: *m, GPUs: p.GPUs(m.Variant, m.Shape), burden: p.burden(m.Variant, m.Shape)})
		}
	}
	for i := range starts {
		b.adopt(forks[i])
		for _, m := range tops[i] {
			add(m)
		}
	}
	for i := range p.Answers {
		add(&p.Answers[i].At)
	}
	return rows, nil
}

// growthOf returns the estimated ratio of the loads of two clusters: the ratio of the pool that grows least.
func growthOf(from, to Shape) float64 {
	if !from.Split() {
		return float64(to.Workers) / float64(from.Workers)
	}
	return min(float64(to.Prefill)/float64(from.Prefill), float64(to.Decode)/float64(from.Decode))
}

// shapesAround returns the clusters that the front shows.
func shapesAround(s Shape, fixed bool, most int) []Shape {
	all := []Shape{s}
	if fixed {
		return all
	}
	for _, share := range []float64{0.5, 0.75, 1.5, 2} {
		scaled := func(n int) int { return max(1, int(float64(n)*share+0.5)) }
		other := Two(scaled(s.Prefill), scaled(s.Decode))
		if !s.Split() {
			other = One(scaled(s.Workers))
		}
		if other.Size() <= most && !slices.Contains(all, other) {
			all = append(all, other)
		}
	}
	return all
}

// paretoFront returns the rows that no other row beats: no other row has at most the same cost or GPUs, at least as
// many answer tokens per second and no objective nearer to its limit.
func paretoFront(rows []Row) []Row {
	var best []Row
	for i := range rows {
		beaten := slices.ContainsFunc(rows, func(r Row) bool { return r.beats(&rows[i]) })
		same := slices.ContainsFunc(best, func(r Row) bool { return r.Point == rows[i].Point })
		if !beaten && !same {
			best = append(best, rows[i])
		}
	}
	sort.SliceStable(best, func(i, j int) bool { // shares its compiled code with other lists
		a, b := &best[i], &best[j]
		return cmp.Or(cmp.Compare(a.burden, b.burden), cmp.Compare(a.Variant, b.Variant),
			cmp.Compare(a.Shape.Prefill, b.Shape.Prefill), cmp.Compare(a.Load, b.Load)) < 0
	})
	return best
}

// beats reports whether r is in no value worse than o, and in at least one better.
func (r *Row) beats(o *Row) bool {
	if r.burden > o.burden || r.OutputTokensPerS < o.OutputTokensPerS {
		return false
	}
	better := r.burden < o.burden || r.OutputTokensPerS > o.OutputTokensPerS
	for i := range r.Values {
		mine, other := r.Values[i].Excess(), o.Values[i].Excess()
		if mine > other {
			return false
		}
		better = better || mine < other
	}
	return better
}

// CostPerMillion returns the price of a million tokens at tokensPerS, in the currency of perGPUHour.
func CostPerMillion(gpus int, perGPUHour, tokensPerS float64) float64 {
	if tokensPerS <= 0 {
		return 0
	}
	return float64(float64(gpus)*perGPUHour) / 3600 / tokensPerS * 1e6
}
