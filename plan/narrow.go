package plan

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/stable"
)

// Narrowing is a search for the variants, among many, that are worth a full plan. Each round is a race on a longer
// stretch of the workload than the round before, and keeps the better variants.
type Narrowing struct {
	Config
	Keep  int   // number of kinds of variants to find, at least 1
	Parts []int // Point.Part of the rounds, in their order, as 3, 1, 0
	// Hard is the resample for clusters: a resample with long passes. A cluster that meets only on the recorded
	// workload is no guide to a cluster that meets in most resamples.
	Hard int
	// Stop is called after each step of all variants. If Stop returns true, the rounds end with the results so far.
	// Nil: never.
	Stop func(replays int) bool
	// Watch, if not nil, is called after each step of all variants.
	Watch func(Stage)
}

// Stage is the progress of a search.
type Stage struct {
	Round, Rounds int      // Round counts from 1
	Done, All     int      // number of variants of the round
	Best          *Measure // the cluster that meets and costs least in the round; nil: none so far
}

// Narrowed is the result of a Narrowing.
type Narrowed struct {
	Kept    []int      // variants, the best first: the best of each kind, and at equal cost the variant with the most room below the limits
	At      []*Measure // their smallest clusters that meet, in the last round
	Left    []Left     // the other variants that can run, in order
	Replays int
	// Requests is the number of requests of all replays. A replay of a stretch counts the requests of the stretch.
	Requests int
	Stopped  bool // by Stop, or since the context ended
	// Nearest is the measure nearest to the objectives if Kept is empty; otherwise nil.
	Nearest *Measure
}

// Left is a variant that is not planned in full.
type Left struct {
	Variant int
	Part    int      // part of the last round with the variant
	At      *Measure // the smallest cluster that met there; nil: none did
	Most    Shape    // the largest cluster that missed in that round; zero: none was replayed
}

// Narrow runs a search. A variant that cannot run is Refused afterwards. If ctx ends, Narrow returns the results so
// far with the error.
func Narrow(ctx context.Context, c Narrowing) (*Narrowed, error) {
	n := &narrower{Narrowing: c, bench: newBench(c.Run, c.Cores), plan: &Plan{Variants: c.Variants}, left: map[int]Left{}}
	n.bench.meter.report = c.Progress
	n.plan.ByCost = n.plan.comparesCost()
	n.findTwins()
	all := n.list()
	n.bench.meter.expect(len(all) * guessContender)
	var err error
	for round, part := range c.Parts {
		n.round, n.margin = round+1, earlyMargin
		if n.round == len(c.Parts) {
			n.margin = 1
		}
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
	found := &Narrowed{Replays: int(n.bench.meter.done.Load()), Requests: n.bench.countRequests(), Stopped: n.stopped}
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

// guessContender is the first estimate of the number of replays of a contender.
const guessContender = 2

// rank orders contenders by cost, then by room below the limits, then by the number of changes from defaults. rank
// keeps the best split of each variant, and records the other variants as left.
func (n *narrower) rank(all []*contender, part int) []*contender {
	stable.Sort(all, func(x, y *contender) int {
		return cmp.Or(cmp.Compare(n.burdenOf(x), n.burdenOf(y)), cmp.Compare(roomLeft(x.best), roomLeft(y.best)),
			cmp.Compare(n.Variants[x.variant].Changes, n.Variants[y.variant].Changes), cmp.Compare(x.variant, y.variant))
	})
	var kept []*contender
	for _, x := range all {
		if slices.ContainsFunc(kept, func(o *contender) bool { return o.variant == x.variant }) || n.Variants[x.variant].Refused != nil {
			continue
		}
		if left, ok := n.left[x.variant]; !ok || left.At == nil || x.best != nil {
			left := Left{Variant: x.variant, Part: part, At: x.best}
			if x.low > 0 {
				left.Most = x.shape(x.low)
			}
			n.left[x.variant] = left
		}
		if x.high > 0 {
			kept = append(kept, x)
		}
	}
	return kept
}

// measureTightness returns the ratio of a measure to its nearest limit.
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

// roomLeft returns the room below the limits in steps of a quarter, the largest room first. A smaller difference is
// no reason to change defaults.
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

// choose returns the best of ranked contenders and the best of other kinds, at most Keep kinds. For each kind it also
// returns the contender with the most room below the limits, if it costs no more: it may still meet if the first
// needs more workers.
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

// burdenOf returns the cost of the smallest cluster of a contender, +Inf if there is none.
func (n *narrower) burdenOf(x *contender) float64 {
	if x.high == 0 {
		return math.Inf(1)
	}
	return n.plan.burden(x.variant, x.best.Shape)
}
