package plan

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
)

// Narrowing is a search for the variants that are worth a whole plan, where there are many: by successive halving. Each
// round finds the smallest cluster of every variant that is left, on a longer stretch of the workload than the round
// before, and keeps the better ones.
type Narrowing struct {
	Config
	Keep  int   // kinds of variants to find, at least 1
	Parts []int // Point.Part of the rounds, in their order, as 3, 1, 0
	// Hard is the resample that clusters are held to: one of those of which the passes take longest. What meets on the
	// workload as recorded alone is no guide to what meets in most resamples.
	Hard int
	// Stop reports after each step of all variants that enough was spent: the rounds end, and what is known then counts. Nil: never.
	Stop func(replays int) bool
	// Watch, when not nil, is called after each step of all variants.
	Watch func(Stage)
}

// Stage is how far a search is.
type Stage struct {
	Round, Rounds int      // from 1
	Done, All     int      // variants of the round
	Best          *Measure // the cluster that meets and costs least in the round; nil: none so far
}

// Narrowed is what a search by halves found.
type Narrowed struct {
	Kept    []int      // variants, the best first: the best of each kind, and at the same cost the one with most room below the limits
	At      []*Measure // their smallest clusters that meet, in the last round
	Left    []Left     // the others that can run, in order
	Replays int
	Stopped bool // by Stop, or since the context ended
	// Nearest is the measure that comes nearest to the objectives where nothing is Kept; nil otherwise.
	Nearest *Measure
}

// Left is a variant that is not planned in full.
type Left struct {
	Variant int
	Part    int      // of the last round that it was in
	At      *Measure // its smallest cluster there; nil: none that was allowed meets
	Most    Shape    // the largest cluster that was allowed
}

// slack is how much more than the best so far a cluster may cost in a round: what is farther off is left out.
const slack = 2.0

// stuckAbove is the share of the excess over a limit that is left with twice the workers, from which on more workers are
// taken to be of no use.
const stuckAbove = 0.97

// overloaded is the Saturation of a cluster of which the queue grew.
const overloaded = "overloaded"

// contender is a variant in a round, of two pools with a share of prefill workers.
type contender struct {
	variant   int
	share     float64 // of prefill workers; 0: one pool
	low, high int     // sizes: low misses, high meets; 0: not known
	most      int     // the largest size that is allowed
	next      int     // the size to try
	ended     bool
	best      *Measure // of high
	excess    float64  // of low, over the limit it misses by most
	stuck     bool     // twice the workers came no nearer to the limits
}

// Narrow carries out a search. A variant that turns out not to run is Refused afterwards. When ctx ends, it returns what was
// found until then with the error.
func Narrow(ctx context.Context, c Narrowing) (*Narrowed, error) {
	n := &narrower{Narrowing: c, bench: newBench(c.Run, c.Cores), plan: &Plan{Variants: c.Variants}, left: map[int]Left{}}
	n.bench.meter.report = c.Progress
	n.plan.ByCost = n.plan.comparesCost()
	all := n.list()
	n.bench.meter.expect(len(all) * guessContender)
	var err error
	for round, part := range c.Parts {
		n.round = round + 1
		if err = n.measureRound(ctx, all, part); err != nil && ctx.Err() == nil {
			return nil, err
		}
		n.stopped = n.stopped || err != nil
		if all = n.rank(all, part); n.stopped {
			break
		}
		if round+1 < len(c.Parts) {
			all = n.halve(all)
			n.bench.meter.expect(len(all) * guessContender / 2)
		}
	}
	found := &Narrowed{Replays: int(n.bench.meter.done.Load()), Stopped: n.stopped}
	for _, x := range n.choose(all) {
		found.Kept, found.At = append(found.Kept, x.variant), append(found.At, x.best)
		delete(n.left, x.variant)
	}
	if len(found.Kept) == 0 {
		found.Nearest = n.nearest
	}
	for i := range c.Variants {
		if left, ok := n.left[i]; ok && c.Variants[i].Refused == nil {
			found.Left = append(found.Left, left)
		}
	}
	return found, err
}

// guessContender is the number of replays that a contender takes, as a first guess.
const guessContender = 6

// narrower is a search at work.
type narrower struct {
	Narrowing
	bench   *bench
	plan    *Plan        // of no answers: it knows what clusters cost
	left    map[int]Left // by variant
	round   int          // from 1
	least   float64      // the least burden of a cluster that meets in this round
	best    *Measure     // of that burden
	stopped bool
	nearest *Measure // of those that miss
}

// list returns the contenders of all variants that can run.
func (n *narrower) list() []*contender {
	var all []*contender
	for i := range n.Variants {
		switch v := &n.Variants[i]; {
		case v.Refused != nil:
		case v.Split:
			for _, share := range []float64{0.25, 0.5, 0.75} {
				all = append(all, &contender{variant: i, share: share})
			}
		default:
			all = append(all, &contender{variant: i})
		}
	}
	return all
}

// shape returns the cluster of a size.
func (x *contender) shape(size int) Shape {
	if x.share == 0 {
		return One(size)
	}
	prefill := min(max(1, int(math.Round(x.share*float64(size)))), size-1)
	return Two(prefill, size-prefill)
}

// fewest is the smallest size.
func (x *contender) fewest() int {
	if x.share == 0 {
		return 1
	}
	return 2
}

// measureRound finds the smallest cluster of each contender on a stretch. The first round begins with one contender
// alone, which tells the others where to start.
func (n *narrower) measureRound(ctx context.Context, all []*contender, part int) error {
	n.least, n.best = math.Inf(1), nil
	for _, x := range all {
		guess := x.high
		*x = contender{variant: x.variant, share: x.share, next: max(guess, x.fewest())}
	}
	ahead := all
	if len(all) > 0 && all[0].next == all[0].fewest() {
		ahead = all[:1]
	}
	for {
		var points []Point
		var asked []*contender
		for _, x := range ahead {
			if n.limit(x); !x.ended {
				asked = append(asked, x)
				points = append(points, Point{Variant: x.variant, Shape: x.shape(x.next), Load: 1, Sample: n.Hard, Part: part})
			}
		}
		if len(asked) == 0 && len(ahead) == len(all) {
			return nil
		}
		if len(asked) == 0 {
			ahead = all
			n.startNear(all[1:])
			continue
		}
		measures, err := n.measureAll(ctx, points)
		if err != nil {
			return err
		}
		for i, x := range asked {
			n.noteMeasure(x, measures[i])
		}
		n.showStage(all)
		if stop := n.Stop; stop != nil && stop(int(n.bench.meter.done.Load())) {
			n.stopped = true
			return nil
		}
	}
}

// showStage shows the watcher how far the round of these contenders is.
func (n *narrower) showStage(all []*contender) {
	if n.Watch == nil {
		return
	}
	open := map[int]bool{} // variants of which some split has not ended
	for _, x := range all {
		open[x.variant] = open[x.variant] || !x.ended
	}
	s := Stage{Round: n.round, Rounds: len(n.Parts), All: len(open), Best: n.best}
	for _, is := range open {
		if !is {
			s.Done++
		}
	}
	n.Watch(s)
}

// measureAll measures points. A variant that turns out not to run is refused, and has no measure.
func (n *narrower) measureAll(ctx context.Context, points []Point) ([]*Measure, error) {
	begun := len(n.bench.order)
	measures, err := n.bench.measure(ctx, points...)
	if cannot := (*CannotRunError)(nil); !errors.As(err, &cannot) {
		return measures, err
	}
	n.bench.forget(begun)
	measures = make([]*Measure, len(points))
	for i, p := range points { // one by one, to know which it is
		begun := len(n.bench.order)
		one, err := n.bench.measure(ctx, p)
		if cannot := (*CannotRunError)(nil); errors.As(err, &cannot) {
			n.bench.forget(begun)
			n.Variants[p.Variant].Refused = cannot.Err
			continue
		} else if err != nil {
			return nil, err
		}
		measures[i] = one[0]
	}
	return measures, nil
}

// startNear lets contenders begin with about the burden of the best so far.
func (n *narrower) startNear(all []*contender) {
	if math.IsInf(n.least, 1) {
		return
	}
	for _, x := range all {
		each := n.plan.burden(x.variant, x.shape(x.fewest())) / float64(x.fewest())
		x.next = min(max(int(n.least/each), x.fewest()), n.Most)
	}
}

// limit sets the largest size that a contender may have, and ends those of which none is left.
func (n *narrower) limit(x *contender) {
	if n.Variants[x.variant].Refused != nil {
		x.ended, x.high = true, 0
	}
	if x.ended {
		return
	}
	x.most = n.Most
	if !math.IsInf(n.least, 1) {
		each := n.plan.burden(x.variant, x.shape(x.fewest())) / float64(x.fewest())
		x.most = min(x.most, int(slack*n.least/each))
	}
	if x.high > 0 && x.low >= x.most {
		x.ended = true
		return
	}
	if x.next > x.most {
		if x.next = x.most; x.next <= x.low || x.next < x.fewest() {
			x.ended = true
		}
	}
}

// noteMeasure notes what became of the size that was tried, and chooses the next.
func (n *narrower) noteMeasure(x *contender, m *Measure) {
	switch {
	case m == nil:
		x.ended, x.high = true, 0
		return
	case m.Met:
		x.high, x.best = x.next, m
		if burden := n.plan.burden(x.variant, m.Shape); burden < n.least {
			n.least, n.best = burden, m
		}
	default:
		x.stuck = x.excess > 0 && measureTightness(m) > stuckAbove*x.excess && m.Saturation != overloaded
		x.low, x.excess = x.next, measureTightness(m)
		if n.nearest == nil || measureTightness(m) < measureTightness(n.nearest) {
			n.nearest = m
		}
	}
	switch {
	case x.high == 0 && (x.low >= x.most || x.stuck), x.high > 0 && x.high-x.low <= 1, x.high == x.fewest():
		x.ended = true
	case x.high == 0:
		x.next = min(2*x.low, x.most)
	case x.low == 0:
		x.next = max(x.high/2, x.fewest())
	default:
		x.next = (x.low + x.high) / 2
	}
}

// rank orders contenders by what their clusters cost, how much room they leave below the limits, and in how much they
// depart from defaults. It keeps the better of the splits of a variant, and notes the others as left.
func (n *narrower) rank(all []*contender, part int) []*contender {
	slices.SortStableFunc(all, func(x, y *contender) int {
		return cmp.Or(cmp.Compare(n.burdenOf(x), n.burdenOf(y)), cmp.Compare(roomLeft(x.best), roomLeft(y.best)),
			cmp.Compare(n.Variants[x.variant].Changes, n.Variants[y.variant].Changes), cmp.Compare(x.variant, y.variant))
	})
	var kept []*contender
	for _, x := range all {
		if slices.ContainsFunc(kept, func(o *contender) bool { return o.variant == x.variant }) || n.Variants[x.variant].Refused != nil {
			continue
		}
		if left, ok := n.left[x.variant]; !ok || left.At == nil || x.best != nil {
			n.left[x.variant] = Left{Variant: x.variant, Part: part, At: x.best, Most: x.shape(max(x.most, x.fewest()))}
		}
		if x.high > 0 {
			kept = append(kept, x)
		}
	}
	return kept
}

// measureTightness returns how near a measure comes to a limit, as a factor.
func measureTightness(m *Measure) float64 {
	if m == nil {
		return math.Inf(1)
	}
	most := 0.0
	for i := range m.Values {
		most = max(most, m.Values[i].Excess())
	}
	return most
}

// roomLeft returns the step in which the tightness of a measure is, from the roomiest: steps are a quarter apart, since less
// is no reason to depart from defaults.
func roomLeft(m *Measure) float64 {
	return math.Floor(math.Log(measureTightness(m)) / math.Log(1.25))
}

// halve keeps the better half of ranked contenders, and the best of each kind.
func (n *narrower) halve(ranked []*contender) []*contender {
	keep := max((len(ranked)+1)/2, n.Keep)
	seen := map[string]bool{}
	var kept []*contender
	for i, x := range ranked {
		kind := n.Variants[x.variant].Kind
		if i < keep && i < 4*n.Keep || !seen[kind] {
			kept = append(kept, x)
		}
		seen[kind] = true
	}
	return kept
}

// choose returns the best of ranked contenders and the best of other kinds, Keep kinds at most. Of a kind it also returns the
// one that leaves most room below the limits, if that costs no more: where the first turns out to need more, it may not.
func (n *narrower) choose(ranked []*contender) []*contender {
	var kinds []string
	var kept []*contender
	for i, x := range ranked {
		kind := n.Variants[x.variant].Kind
		if slices.Contains(kinds, kind) || len(kinds) == n.Keep {
			continue
		}
		kinds = append(kinds, kind)
		kept = append(kept, x)
		roomiest := x
		for _, y := range ranked[i+1:] {
			if n.Variants[y.variant].Kind == kind && n.burdenOf(y) == n.burdenOf(x) && measureTightness(y.best) < measureTightness(roomiest.best) {
				roomiest = y
			}
		}
		if roomiest != x {
			kept = append(kept, roomiest)
		}
	}
	return kept
}

// burdenOf returns what the smallest cluster of a contender costs, +Inf without one.
func (n *narrower) burdenOf(x *contender) float64 {
	if x.high == 0 {
		return math.Inf(1)
	}
	return n.plan.burden(x.variant, x.shape(x.high))
}
