package plan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Config is the input of a plan.
type Config struct {
	Run      Run
	Variants []Variant // the settings to choose from, at least 1
	// Most is the maximum number of workers, at least 1 (2 for two pools).
	Most      int
	Precision float64 // of the highest load, relative, > 0
	Resamples int     // number of resamples for error bars; 0: none
	// Confidence is the required share of resamples for the confident cluster, at most 1; 0: no such cluster is
	// searched.
	Confidence float64
	// Brief omits the highest load, error bars and the chances of other sizes.
	Brief bool
	Front bool // measure clusters of other sizes and at other loads too
	Cores int  // number of replays at once, at least 1; results do not depend on it
	// Progress, if not nil, is called with the number of finished replays and an estimate of their total, from
	// several goroutines.
	Progress func(done, expected int)
}

// First estimates of the numbers of replays: for the smallest cluster and its highest load, for a resample, and for a
// cluster in the front.
const (
	guessVariant = 20
	guessSample  = 10
	guessFront   = 6
)

// guessLater estimates the number of replays after the answers.
func (c *Config) guessLater(front bool) int {
	n := 0
	if !front {
		n = guessSample * c.Resamples
	}
	if c.Front {
		n += len(c.Variants) * len(shapesAround(One(8), false, 64)) * guessFront
	}
	return n
}

// Variant is one choice of settings.
type Variant struct {
	Name  string // what differs between variants; "" when there is one
	Split bool   // prefill and decode have separate pools
	Fixed Shape  // the given cluster; zero: it is searched
	GPUs  int    // GPUs per worker, of either pool
	// CountGPUs returns the GPUs of a cluster with workers of different numbers of GPUs; nil: each worker has GPUs.
	CountGPUs func(Shape) int
	Price     float64 // of a GPU for an hour; 0: not known
	// PricePerHour returns the price of a cluster with GPUs of different prices; nil: each GPU has Price.
	PricePerHour func(Shape) float64
	Refused      error // why it cannot run at all; nil: it can, as far as is known
	// Kind is equal for variants that a search treats as alternatives: the search keeps one of these variants.
	// Package plan does not interpret Kind.
	Kind string
	// Single is equal for variants with equal clusters of one worker: a search replays one of them. "": equal to no
	// other variant.
	Single  string
	Changes int // settings in which it departs from the defaults: fewer are better where little else differs
	// Near is a cluster that an earlier search found for the variant. Sizes near it are searched, and only a few
	// smaller sizes are run. The highest load is found only for the best variant. The variants must be ordered by
	// need: the plan omits all variants from the first that needs no less than a cluster that meets the target. Zero:
	// nothing is known.
	Near Shape
}

// CannotRunError is the reason why no cluster of a variant can run. If Run returns it for a variant, the other
// variants are still compared.
type CannotRunError struct{ Err error }

func (e *CannotRunError) Error() string { return e.Err.Error() }
func (e *CannotRunError) Unwrap() error { return e.Err }

// Plan is the result of a search.
type Plan struct {
	Answers []Answer // one per variant, in order
	// ByCost is true if GPUs of different prices are compared. Then the best cluster has the lowest cost per hour,
	// not the fewest GPUs.
	ByCost   bool
	Best     int       // index of the best answer, by cost of the cluster that meets the target; -1: no cluster meets
	Front    []Row     // rows that no measured cluster beats; by workers, then load
	Requests int       // sum over all replays
	Measures []Measure // all replays, in an order that does not depend on the number of cores
	Variants []Variant
}

// GPUs returns the GPUs of a cluster of a variant, at least 1 per worker.
func (p *Plan) GPUs(variant int, shape Shape) int {
	return p.Variants[variant].GPUsOf(shape)
}

// GPUsOf returns the GPUs of a cluster of the variant, at least 1 per worker.
func (v *Variant) GPUsOf(shape Shape) int {
	if v.CountGPUs != nil && shape.Size() > 0 {
		return v.CountGPUs(shape)
	}
	return shape.Size() * max(1, v.GPUs)
}

// CostOf returns the cost of a cluster of the variant for one hour; 0: unknown.
func (v *Variant) CostOf(shape Shape) float64 {
	if v.PricePerHour != nil && shape.Size() > 0 {
		return v.PricePerHour(shape)
	}
	return v.Price * float64(v.GPUsOf(shape))
}

// PerHour returns the cost of a cluster of a variant for one hour; 0: unknown.
func (p *Plan) PerHour(variant int, shape Shape) float64 {
	return p.Variants[variant].CostOf(shape)
}

// comparesCost reports whether all variants that can run have prices, and these differ per GPU. For variants with an
// answer it uses the price of its cluster.
func (p *Plan) comparesCost() bool {
	least, most := math.Inf(1), 0.0
	for i := range p.Variants {
		refused, each := p.Variants[i].Refused, p.Variants[i].Price
		if i < len(p.Answers) {
			shape := p.Answers[i].Shape
			refused, each = p.Answers[i].Refused, p.PerHour(i, shape)/float64(p.GPUs(i, shape))
		}
		if refused == nil {
			least, most = min(least, each), max(most, each)
		}
	}
	return least > 0 && most > least*(1+1e-9)
}

// burden returns the number that is lower for a better cluster: its cost, rounded to a millionth, or its GPUs.
func (p *Plan) burden(variant int, shape Shape) float64 {
	if p.ByCost {
		return math.Round(1e6*p.PerHour(variant, shape)) / 1e6
	}
	return float64(p.GPUs(variant, shape))
}

// Answer is the result for one variant.
type Answer struct {
	Variant int
	Refused error // why the variant cannot run, and nothing else is known; nil: it can
	// Found is true if a cluster meets at the workload's load.
	Found bool
	Shape Shape // the smallest that does, or the given one; the largest tried when none does
	At    Measure
	// Smaller are the clusters with one worker less. All of them miss.
	Smaller []Measure
	// Checked counts the smaller clusters that were run. All of them miss. EverySmaller is true if all smaller
	// clusters were run.
	Checked      int
	EverySmaller bool
	// Larger are larger clusters that were run and miss, by size: more workers need not be better.
	Larger []Measure
	// The highest load at which Shape meets, and the next tried load, which misses; nil if there is none.
	Highest, Beyond *Measure
	// Bars are the error bars; nil without resamples.
	Bars *Bars
	// Confident is the smallest cluster that meets in the target share of resamples. Confident is nil if no cluster
	// was searched: for a given cluster, or without resamples.
	Confident *Confident
	// Chances are the numbers of resamples in which clusters near Confident meet, by size. Only the best variant has
	// Chances.
	Chances      []Chance
	ResamplesMet int // resamples in which a given cluster meets, when all variants are resampled
}

// Find returns the plan for c.
func Find(ctx context.Context, c Config) (*Plan, error) {
	d, err := Begin(ctx, c)
	if err != nil {
		return nil, err
	}
	return d.Plan, d.Finish(ctx)
}

// Draft is a plan with known answers and further measurements to come.
type Draft struct {
	// Plan has the answers. The Measures of Plan are the measures so far.
	Plan *Plan

	config Config
	bench  *bench
}

// Begin finds the answers of the plan for c, with the chances of the best answer. For a variant with Near, it does
// not find the highest load.
func Begin(ctx context.Context, c Config) (*Draft, error) {
	if len(c.Variants) == 0 || c.Most < 1 || !(c.Precision > 0) {
		return nil, fmt.Errorf("%d variants of up to %d workers to a precision of %v, must be at least 1 of each and a precision above 0",
			len(c.Variants), c.Most, c.Precision)
	}
	b := newBench(c.Run, c.Cores)
	b.meter.report = c.Progress
	b.meter.expect(guessVariant*len(c.Variants) + c.guessLater(false))
	p := &Plan{Best: -1, Variants: c.Variants}
	p.ByCost = p.comparesCost()
	for i := range c.Variants {
		if v := &c.Variants[i]; v.Near.Size() > 0 && p.burden(i, v.Near) >= p.leastConfident() {
			p.Variants = c.Variants[:i]
			break
		}
		a, err := c.tryVariant(ctx, b, i)
		if err != nil {
			return nil, err
		}
		p.Answers = append(p.Answers, a)
		b.meter.expect(len(b.order)/(i+1)*(len(c.Variants)-i-1) + c.guessLater(false))
	}
	if err := p.refuseAll(); err != nil {
		return nil, err
	}
	p.ByCost = p.comparesCost()
	c.chooseBest(p)
	if err := c.checkCheaper(ctx, b, p); err != nil {
		return nil, err
	}
	if err := c.measureUncertainty(ctx, b, p); err != nil {
		return nil, err
	}
	p.note(b)
	return &Draft{Plan: p, config: c, bench: b}, nil
}

// Finish measures the highest load of the best answer, and the front. Finish changes only these fields of the plan
// and, at the end, Measures and Requests. The other fields can be read in the meantime.
func (d *Draft) Finish(ctx context.Context) error {
	if err := d.config.measureAround(ctx, d.bench, d.Plan); err != nil {
		return err
	}
	d.Plan.note(d.bench)
	return nil
}

// note adds the measures of b.
func (p *Plan) note(b *bench) {
	p.Requests, p.Measures = b.countRequests(), make([]Measure, len(b.order))
	for i, point := range b.order {
		p.Measures[i] = *b.measures[point]
	}
}

// tryVariant returns the answer of a variant or, if the variant cannot run, the reason.
func (c *Config) tryVariant(ctx context.Context, b *bench, variant int) (Answer, error) {
	refused := c.Variants[variant].Refused
	if refused == nil {
		begun := len(b.order)
		a, err := c.findAnswer(ctx, b, variant)
		var cannot *CannotRunError
		if !errors.As(err, &cannot) {
			return a, err
		}
		b.forget(begun)
		refused = cannot.Err
	}
	return Answer{Variant: variant, Refused: refused}, nil
}

// refuseAll returns the reasons if no variant can run.
func (p *Plan) refuseAll() error {
	var all []error
	for i := range p.Answers {
		switch err := p.Answers[i].Refused; {
		case err == nil:
			return nil
		case len(p.Answers) == 1:
			return err
		default:
			all = append(all, fmt.Errorf("%s: %w", p.Variants[i].Name, err))
		}
	}
	return errors.Join(all...)
}

// findAnswer finds the smallest cluster of a variant and its highest load.
func (c *Config) findAnswer(ctx context.Context, b *bench, variant int) (Answer, error) {
	v := c.Variants[variant]
	a := Answer{Variant: variant, Shape: v.Fixed}
	s := &search{bench: b, at: Point{Variant: variant, Load: 1}}
	if a.Shape.Size() == 0 {
		if err := c.findShape(ctx, s, &a); err != nil {
			return a, err
		}
	}
	all, err := s.measure(ctx, a.Shape)
	if err != nil {
		return a, err
	}
	a.At, a.Found = *all[0], all[0].Met
	if err := c.resample(ctx, b, &a); err != nil || !a.Found && v.Fixed.Size() == 0 || v.Near.Size() > 0 || c.Brief {
		return a, err
	}
	return a, c.finish(ctx, b, &a)
}

// finish measures the clusters with one worker less than the answer, and the highest load of the answer.
func (c *Config) finish(ctx context.Context, b *bench, a *Answer) (err error) {
	s := &search{bench: b, at: Point{Variant: a.Variant, Load: 1}}
	if err := s.measureNeighbours(ctx, a); err != nil {
		return err
	}
	a.Highest, a.Beyond, err = b.findHighest(ctx, a.At.Point, wideLadder(c.Precision))
	return err
}

// meetsTarget reports whether a cluster of the answer meets in the target share of resamples. meetsTarget returns the
// cluster and the number of resamples in which it meets.
func (c *Config) meetsTarget(a *Answer) (shape Shape, met int, ok bool) {
	if f := a.Confident; f != nil {
		return f.Shape, f.Met, f.Found
	}
	return a.Shape, a.ResamplesMet, a.Refused == nil && a.ResamplesMet >= c.resamplesNeeded()
}

// findShape returns the smallest cluster that meets, or the largest cluster that was tried.
func (c *Config) findShape(ctx context.Context, s *search, a *Answer) (err error) {
	near := c.Variants[a.Variant].Near
	if !c.Variants[a.Variant].Split {
		var n int
		if near.Size() > 0 {
			n, err = findSmallestNear(ctx, near.Workers, c.Most, s.sizes(One))
		} else {
			n, err = findSmallest(ctx, c.Most, s.sizes(One))
		}
		if a.Shape = One(n); n == 0 {
			a.Shape = One(c.Most)
		}
		return err
	}
	if c.Most < 2 {
		return errors.New("at most 1 worker for two pools, must be at least 2")
	}
	if a.Shape, err = s.smallestSplit(ctx, c.Most, near); a.Shape.Size() == 0 {
		a.Shape = Two(c.Most/2, c.Most-c.Most/2)
	}
	return err
}

// measureNeighbours measures the clusters with one worker less, and counts all smaller clusters that were run.
func (s *search) measureNeighbours(ctx context.Context, a *Answer) error {
	var shapes []Shape
	switch size := a.Shape; {
	case !size.Split() && size.Workers > 1:
		shapes = []Shape{One(size.Workers - 1)}
	case size.Split():
		if size.Prefill > 1 {
			shapes = append(shapes, Two(size.Prefill-1, size.Decode))
		}
		if size.Decode > 1 {
			shapes = append(shapes, Two(size.Prefill, size.Decode-1))
		}
	}
	all, err := s.measure(ctx, shapes...)
	if err != nil {
		return err
	}
	for _, m := range all {
		a.Smaller = append(a.Smaller, *m)
	}
	s.countOthers(a)
	return nil
}

// countOthers counts the smaller clusters that were run and miss, and lists the larger clusters.
func (s *search) countOthers(a *Answer) {
	size := a.Shape.Size()
	for _, q := range s.bench.order {
		p, m := s.at, s.bench.measures[q]
		if p.Shape = q.Shape; p != q || m.Met {
			continue
		}
		if q.Shape.Size() < size {
			a.Checked++
		} else if q.Shape.Size() > size {
			a.Larger = append(a.Larger, *m)
		}
	}
	sort.SliceStable(a.Larger, func(i, j int) bool { return a.Larger[i].Shape.Size() < a.Larger[j].Shape.Size() })
	all := size - 1
	if a.Shape.Split() {
		all = all * (all - 1) / 2 // splits of 2, 3, … workers
	}
	a.EverySmaller = a.Checked == all
}

// chooseBest selects the best answer by these criteria, in order: a cluster that meets the target, the lowest cost or
// the fewest GPUs, the most resamples met, the highest load, the order of the variants.
func (c *Config) chooseBest(p *Plan) {
	p.Best = -1
	for i := range p.Answers {
		a := &p.Answers[i]
		_, _, sure := c.meetsTarget(a)
		if sure = sure && c.seeksConfident(); !sure && !a.Found {
			continue
		}
		if p.Best < 0 || c.isBetter(p, a, &p.Answers[p.Best]) {
			p.Best = i
		}
	}
}

func (c *Config) isBetter(p *Plan, a, b *Answer) bool {
	shapeA, metA, sureA := c.meetsTarget(a)
	shapeB, metB, sureB := c.meetsTarget(b)
	switch {
	case !c.seeksConfident() || !sureA && !sureB:
		shapeA, metA, shapeB, metB = a.Shape, 0, b.Shape, 0
	case sureA != sureB:
		return sureA
	}
	if x, y := p.burden(a.Variant, shapeA), p.burden(b.Variant, shapeB); x != y {
		return x < y
	}
	if metA != metB {
		return metA > metB
	}
	return a.Highest != nil && (b.Highest == nil || a.Highest.Load > b.Highest.Load)
}

// measureUncertainty measures the error bars and the chances of the best answer, or of a given cluster.
func (c *Config) measureUncertainty(ctx context.Context, b *bench, p *Plan) error {
	i := p.Best
	if i < 0 {
		i = slices.IndexFunc(p.Answers, func(a Answer) bool { return a.Refused == nil && c.Variants[a.Variant].Fixed.Size() > 0 })
	}
	if c.Brief || i < 0 || c.Resamples == 0 || !p.Answers[i].Found && c.Variants[i].Fixed.Size() == 0 {
		return nil
	}
	bars, err := c.measureBars(ctx, b, &p.Answers[i])
	if err != nil {
		return err
	}
	p.Answers[i].Bars = bars
	return c.measureChances(ctx, b, &p.Answers[i])
}

// measureAround measures the highest load of the best answer, unless it is known, and the front.
func (c *Config) measureAround(ctx context.Context, b *bench, p *Plan) error {
	if c.Brief {
		return nil
	}
	if p.Best >= 0 && c.Variants[p.Best].Near.Size() > 0 && p.Answers[p.Best].Found {
		if err := c.finish(ctx, b, &p.Answers[p.Best]); err != nil {
			return err
		}
	}
	if !c.Front {
		return nil
	}
	b.meter.expect(c.guessLater(true))
	rows, err := c.measureFront(ctx, b, p)
	if err != nil {
		return err
	}
	p.Front = paretoFront(rows)
	return nil
}
