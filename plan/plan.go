package plan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Config is what is to be planned.
type Config struct {
	Run      Run
	Variants []Variant // the settings to choose from, at least 1
	// Most is the largest number of workers considered, at least 1 (2 for two
	// pools).
	Most      int
	Precision float64 // of the highest load, relative, > 0
	Resamples int     // workloads that error bars come from; 0: none
	// Confidence is the share of resamples in which the confident cluster meets, at
	// most 1; 0: none is searched for.
	Confidence float64
	// Brief leaves out the highest load, error bars and the chances of other sizes.
	Brief bool
	Front bool // measure clusters of other sizes and at other loads too
	Cores int  // replays at once, at least 1; no result depends on it
	// Progress, when not nil, is called with the number of replays done and a
	// guess at how many there will be, from several goroutines.
	Progress func(done, expected int)
}

// Replays that a search takes, as a first guess: of the smallest cluster and its
// highest load, of a resample, and of a cluster in the front.
const (
	guessVariant = 20
	guessSample  = 10
	guessFront   = 6
)

// guessLater guesses how many replays come after the answers.
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
	Fixed Shape  // the cluster, when it is given; zero: it is searched for
	GPUs  int    // of a worker, of either pool
	// CountGPUs returns those of a cluster where workers differ in them; nil: each has
	// GPUs.
	CountGPUs func(Shape) int
	Price     float64 // of a GPU for an hour; 0: not known
	// PricePerHour returns that of a cluster where GPUs differ in it; nil: each has Price.
	PricePerHour func(Shape) float64
	Refused      error // why it cannot run at all; nil: it can, as far as is known
	// Kind is the same for variants that a search takes for alike: it keeps one of them. Package plan reads nothing in it.
	Kind string
	// Single is the same for variants of which clusters of one worker are alike: a search replays one of them. "": alike to none.
	Single  string
	Changes int // settings in which it departs from the defaults: fewer are better where little else differs
	// Near is a cluster that a search found for it, which comes before clusters that need more. Sizes are searched
	// around it, only a few smaller ones are run, and the highest load is found for the best variant alone. The plan
	// leaves out variants from the first on that needs no less than a cluster that meets the target. Zero: nothing is
	// known.
	Near Shape
}

// CannotRunError is why no cluster of a variant can run. A Run that returns one for a variant leaves the remaining
// variants to be compared.
type CannotRunError struct{ Err error }

func (e *CannotRunError) Error() string { return e.Err.Error() }
func (e *CannotRunError) Unwrap() error { return e.Err }

// Plan is what has been found.
type Plan struct {
	Answers []Answer // one per variant, in order
	// ByCost is true when GPUs of different prices are compared: the best cluster is then
	// the one that costs least an hour, and not the one with the fewest GPUs.
	ByCost   bool
	Best     int       // index of the best answer, by cost of the cluster that meets the target; -1: no cluster meets
	Front    []Row     // no measured cluster beats one of these in everything; by workers, then load
	Requests int       // of all replays
	Measures []Measure // all replays, in an order that does not depend on the number of cores
	Variants []Variant
}

// GPUs returns the GPUs of a cluster of a variant's workers, at least 1 each.
func (p *Plan) GPUs(variant int, shape Shape) int {
	return p.Variants[variant].GPUsOf(shape)
}

// GPUsOf returns the GPUs of a cluster of the variant's workers, at least 1 each.
func (v *Variant) GPUsOf(shape Shape) int {
	if v.CountGPUs != nil && shape.Size() > 0 {
		return v.CountGPUs(shape)
	}
	return shape.Size() * max(1, v.GPUs)
}

// CostOf returns what a cluster of the variant's workers costs for an hour; 0: not known.
func (v *Variant) CostOf(shape Shape) float64 {
	if v.PricePerHour != nil && shape.Size() > 0 {
		return v.PricePerHour(shape)
	}
	return v.Price * float64(v.GPUsOf(shape))
}

// PerHour returns what a cluster of a variant's workers costs for an hour; 0: not known.
func (p *Plan) PerHour(variant int, shape Shape) float64 {
	return p.Variants[variant].CostOf(shape)
}

// comparesCost reports whether all variants that can run have a price, and not the same
// for each GPU. Variants with an answer have the price of its cluster.
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

// burden returns the number that is lower for a better cluster: its cost, to a millionth, or its GPUs.
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
	// Found is true when a cluster meets at the workload's load.
	Found bool
	Shape Shape // the smallest that does, or the given one; the largest tried when none does
	At    Measure
	// Smaller are the clusters with one worker less, which miss.
	Smaller []Measure
	// Checked counts the smaller clusters that were run, all of which miss; EverySmaller is true when there are no more
	// smaller clusters.
	Checked      int
	EverySmaller bool
	// Larger are larger clusters that the search ran and that miss, by size: more workers need not be better.
	Larger []Measure
	// The highest load at which Shape meets, and the next one tried, which misses; nil when there is none.
	Highest, Beyond *Measure
	// Bars are the error bars; nil without resamples.
	Bars *Bars
	// Confident is the smallest cluster that meets in the target share of resamples; nil
	// when none was searched for: for a given cluster, or without resamples.
	Confident *Confident
	// Chances are in how many resamples clusters around Confident meet, by size; of the best variant alone.
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

// Draft is a plan of which the answers are known, and the rest is yet to be measured.
type Draft struct {
	// Plan has the answers. Its Measures are those until now.
	Plan *Plan

	config Config
	bench  *bench
}

// Begin finds the answers of the plan for c, with the chances of the best. Of a variant that has Near, the highest load is not
// found yet.
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

// Finish measures the rest: the highest load of the best answer, and the front. It changes no other field of the plan than these,
// and in the end Measures and Requests, so that the plan's other fields can be read in the meantime.
func (d *Draft) Finish(ctx context.Context) error {
	if err := d.config.measureAround(ctx, d.bench, d.Plan); err != nil {
		return err
	}
	d.Plan.note(d.bench)
	return nil
}

// note takes over what has been measured.
func (p *Plan) note(b *bench) {
	p.Requests, p.Measures = b.countRequests(), make([]Measure, len(b.order))
	for i, point := range b.order {
		p.Measures[i] = *b.measures[point]
	}
}

// tryVariant returns the answer of a variant or, of one that cannot run, the reason.
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

// refuseAll returns the reasons when no variant can run.
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

// finish measures the clusters with one worker less than the answer, and the
// highest load of the answer.
func (c *Config) finish(ctx context.Context, b *bench, a *Answer) (err error) {
	s := &search{bench: b, at: Point{Variant: a.Variant, Load: 1}}
	if err := s.measureNeighbours(ctx, a); err != nil {
		return err
	}
	a.Highest, a.Beyond, err = b.findHighest(ctx, a.At.Point, wideLadder(c.Precision))
	return err
}

// meetsTarget reports whether a cluster of the answer meets in the target share of
// resamples, and returns the cluster and in how many it meets.
func (c *Config) meetsTarget(a *Answer) (shape Shape, met int, ok bool) {
	if f := a.Confident; f != nil {
		return f.Shape, f.Met, f.Found
	}
	return a.Shape, a.ResamplesMet, a.Refused == nil && a.ResamplesMet >= c.resamplesNeeded()
}

// findShape finds the smallest cluster that meets, or the largest one tried.
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

// measureNeighbours measures the clusters that have one worker less, and counts all
// smaller ones that have been run.
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

// countOthers counts the clusters of fewer workers that have been run and miss,
// and lists those of more.
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

// chooseBest picks the best answer: a cluster that meets the target before one that meets
// on the workload as recorded alone, then the least cost or the fewest GPUs, then the most
// resamples met, then the highest load, then the first.
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
