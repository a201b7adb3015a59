package plan

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/replay-llm/replay/internal/stable"
)

// slack is the accepted cost of a cluster of a kind's first variant in a round, as a factor of the best cost so far.
const slack = 2.0

// nearBest is the accepted cost of a cluster of any other variant, as a factor of the best cost so far.
const nearBest = 1.3

// earlyMargin is the accepted cost of a cluster in a round before the last, as a factor of the best cost of its kind.
// A stretch ranks variants like the workload, but not exactly.
const earlyMargin = 1.5

// stuckAbove is the share of the excess over a limit that remains with twice the workers. Above this share, more
// workers do not help.
const stuckAbove = 0.97

// overloaded is the Saturation of a cluster with a growing queue.
const overloaded = "overloaded"

// contender is a variant in a round. For two pools it has a share of prefill workers.
type contender struct {
	variant   int
	share     float64 // of prefill workers; 0: one pool; openShare: that of the first variant of the kind
	first     bool    // first variant of its kind
	low, high int     // sizes: low misses, high meets; 0: unknown
	most      int     // largest allowed size
	next      int     // next size to try
	step      int     // last decrease of the size
	ended     bool
	best      *Measure // of high
	excess    float64  // largest ratio of a value of low to its limit
	stuck     bool     // twice the workers came no nearer to the limits
	other     bool     // low is tried again, with the share rounded to the other side
}

// openShare is the share of a two-pool contender that has not started.
const openShare = -1

// shape returns the cluster of the given size.
func (x *contender) shape(size int) Shape {
	if x.share == 0 {
		return One(size)
	}
	prefill := int(math.Round(x.share * float64(size)))
	if x.other {
		prefill = x.otherPrefill(size)
	}
	prefill = min(max(1, prefill), size-1)
	return Two(prefill, size-prefill)
}

// otherPrefill returns the number of prefill workers of a size if the share is rounded to the farther side.
func (x *contender) otherPrefill(size int) int {
	exact := x.share * float64(size)
	return int(math.Floor(exact)) + int(math.Ceil(exact)) - int(math.Round(exact))
}

// fewest returns the smallest size.
func (x *contender) fewest() int {
	if x.share == 0 {
		return 1
	}
	return 2
}

// narrower is a running search.
type narrower struct {
	Narrowing
	bench   *bench
	plan    *Plan              // a plan without answers, for the costs of clusters
	twins   []int              // by variant: the first variant with the same Single
	left    map[int]Left       // by variant
	round   int                // from 1
	margin  float64            // of the round: earlyMargin, or 1 in the last
	least   float64            // smallest burden of a cluster that meets in this round
	leastOf map[string]float64 // the same by kind
	best    *Measure           // measure with the smallest burden
	stopped bool
	nearest *Measure // of the measures that miss
}

// findTwins finds the variants with equal single workers.
func (n *narrower) findTwins() {
	n.twins = make([]int, len(n.Variants))
	seen := map[string]int{}
	for i := range n.Variants {
		n.twins[i] = i
		v := &n.Variants[i]
		if v.Single == "" || v.Refused != nil {
			continue
		}
		if first, ok := seen[v.Single]; ok {
			n.twins[i] = first
		} else {
			seen[v.Single] = i
		}
	}
}

// list returns the contenders of all variants that can run. Variants with the fewest changes from defaults come
// first. The first variant of a kind with two pools has several shares of prefill workers. The other variants use the
// best of these shares.
func (n *narrower) list() []*contender {
	var order []int
	for i := range n.Variants {
		if n.Variants[i].Refused == nil {
			order = append(order, i)
		}
	}
	stable.Sort(order, func(a, b int) int { return cmp.Compare(n.Variants[a].Changes, n.Variants[b].Changes) })
	var all []*contender
	seen := map[string]bool{}
	for _, i := range order {
		v := &n.Variants[i]
		shares := []float64{0}
		switch {
		case v.Split && seen[v.Kind]:
			shares = []float64{openShare}
		case v.Split:
			shares = []float64{0.25, 0.5, 0.75}
		}
		seen[v.Kind] = true
		for _, share := range shares {
			all = append(all, &contender{variant: i, share: share})
		}
	}
	return all
}

// wavesOf divides the contenders of a round: the first contender, the first variants of the other kinds, and then the
// remaining ones by number of changes. Each wave uses the result of the previous wave, and tries only clusters that cost no
// more.
func (n *narrower) wavesOf(all []*contender) [][]*contender {
	firsts := map[string]int{} // variant by kind
	by := map[int][]*contender{}
	for i, x := range all {
		v := &n.Variants[x.variant]
		if _, ok := firsts[v.Kind]; !ok {
			firsts[v.Kind] = x.variant
		}
		wave := 1 + v.Changes
		if x.first = firsts[v.Kind] == x.variant; x.first {
			wave = 0
		}
		if i == 0 {
			wave = -1
		}
		by[wave] = append(by[wave], x)
	}
	var order []int
	for wave := range by {
		order = append(order, wave)
	}
	slices.Sort(order)
	waves := make([][]*contender, len(order))
	for i, wave := range order {
		waves[i] = by[wave]
	}
	return waves
}

// measureRound finds the best contenders on a stretch.
func (n *narrower) measureRound(ctx context.Context, all []*contender, part int) error {
	n.least, n.leastOf, n.best = math.Inf(1), map[string]float64{}, nil
	for _, x := range all {
		*x = contender{variant: x.variant, share: x.share, next: x.high, step: 1}
	}
	for _, wave := range n.wavesOf(all) {
		for len(wave) > 0 {
			now := wave
			if math.IsInf(n.least, 1) && !wave[0].first { // one kind after the other, since each may be hopeless
				kind := n.Variants[wave[0].variant].Kind
				if i := slices.IndexFunc(wave, func(x *contender) bool { return n.Variants[x.variant].Kind != kind }); i > 0 {
					now = wave[:i]
				}
			}
			wave = wave[len(now):]
			for _, x := range now {
				n.begin(x, all)
			}
			if err := n.measureWave(ctx, now, all, part); err != nil || n.stopped {
				return err
			}
		}
	}
	return nil
}

// begin sets the first size of a contender. The first size is the size in the previous round or the size with the
// cost of the best so far. After another variant of its kind, the first size is the largest allowed size.
func (n *narrower) begin(x *contender, all []*contender) {
	if x.share == openShare {
		x.share = n.shareOf(x, all)
	}
	switch {
	case x.next > 0:
	case math.IsInf(n.least, 1):
		x.next = x.fewest()
	case x.first:
		x.next = max(n.sizeWithin(x, n.least), x.fewest())
	default:
		x.next = max(n.sizeWithin(x, n.allowance(x)), x.fewest())
	}
}

// shareOf returns the best share of prefill workers for the first variant of a kind.
func (n *narrower) shareOf(x *contender, all []*contender) float64 {
	best := (*contender)(nil)
	for _, y := range all {
		if !y.first || n.Variants[y.variant].Kind != n.Variants[x.variant].Kind {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(n.burdenOf(y), n.burdenOf(best)), cmp.Compare(measureTightness(y.best), measureTightness(best.best)), cmp.Compare(y.excess, best.excess)) < 0 {
			best = y
		}
	}
	if best == nil {
		return 0.5
	}
	return best.share
}

// measureWave finds the smallest clusters of a wave; all are the contenders of the round.
func (n *narrower) measureWave(ctx context.Context, wave, all []*contender, part int) error {
	for {
		var points []Point
		var asked []*contender
		for _, x := range wave {
			if n.limit(x); !x.ended {
				asked = append(asked, x)
				points = append(points, Point{Variant: x.variant, Shape: x.shape(x.next), Load: 1, Sample: n.Hard, Part: part})
			}
		}
		if len(asked) == 0 {
			return nil
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

// showStage passes the progress of the round to Watch.
func (n *narrower) showStage(all []*contender) {
	if n.Watch == nil {
		return
	}
	open := map[int]bool{} // variants with an unfinished split
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

// measureAll measures points. A variant that cannot run is refused, and has no measure.
func (n *narrower) measureAll(ctx context.Context, points []Point) ([]*Measure, error) {
	asked := slices.Clone(points)
	for i := range asked {
		if asked[i].Shape == One(1) {
			asked[i].Variant = n.twins[asked[i].Variant]
		}
	}
	begun := len(n.bench.order)
	measures, err := n.bench.measure(ctx, asked...)
	if cannot := (*CannotRunError)(nil); errors.As(err, &cannot) {
		n.bench.forget(begun)
		measures, err = make([]*Measure, len(points)), nil
		for i := range asked { // one by one, to find the variant that cannot run
			begun := len(n.bench.order)
			one, wrong := n.bench.measure(ctx, asked[i])
			if errors.As(wrong, &cannot) {
				n.bench.forget(begun)
				n.Variants[points[i].Variant].Refused = cannot.Err
				continue
			} else if wrong != nil {
				return nil, wrong
			}
			measures[i] = one[0]
		}
	}
	for i, m := range measures {
		if m != nil && m.Variant != points[i].Variant { // measure of a twin
			own := *m
			own.Variant = points[i].Variant
			measures[i] = &own
		}
	}
	return measures, err
}

// allowance returns the largest useful burden of a cluster of a contender, +Inf if no cluster is known to meet.
func (n *narrower) allowance(x *contender) float64 {
	if x.first {
		return slack * n.least
	}
	most := n.margin * nearBest * n.least
	if of, ok := n.leastOf[n.Variants[x.variant].Kind]; ok {
		most = min(most, n.margin*of)
	}
	return most
}

// sizeWithin returns the largest size of a contender that costs at most a burden, 0 if there is none.
func (n *narrower) sizeWithin(x *contender, burden float64) int {
	least := x.fewest()
	if n.Most < least {
		return 0
	}
	within := sort.Search(n.Most-least+1, func(i int) bool { return n.plan.burden(x.variant, x.shape(least+i)) > burden })
	if within == 0 {
		return 0
	}
	return least + within - 1
}

// limit sets the largest size of a contender, and ends a contender without a size.
func (n *narrower) limit(x *contender) {
	if n.Variants[x.variant].Refused != nil {
		x.ended, x.high = true, 0
	}
	if x.ended {
		return
	}
	if x.most = n.sizeWithin(x, n.allowance(x)); x.most <= x.low {
		x.ended = true
		return
	}
	x.next = min(x.next, x.most)
	x.ended = x.next <= x.low
}

// noteMeasure stores the measure of the tried size, and chooses the next size.
func (n *narrower) noteMeasure(x *contender, m *Measure) {
	switch {
	case m == nil:
		x.ended, x.high = true, 0
		return
	case m.Met:
		x.high, x.best = x.next, m
		if x.other {
			x.share, x.other, x.low, x.step = float64(m.Shape.Prefill)/float64(x.high), false, 0, 1
		}
		burden, kind := n.plan.burden(x.variant, m.Shape), n.Variants[x.variant].Kind
		if least, ok := n.leastOf[kind]; !ok || burden < least {
			n.leastOf[kind] = burden
		}
		if burden < n.least {
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
	case x.other:
		x.ended = true
	case x.high > 0 && x.high-x.low == 1 && !x.first && x.share > 0 && x.low >= x.fewest() && x.shape(x.low).Prefill != min(max(1, x.otherPrefill(x.low)), x.low-1):
		x.other, x.next, x.low = true, x.low, x.low-1
	case x.high == 0 && (x.low >= x.most || x.stuck), x.high > 0 && x.high-x.low <= 1, x.high == x.fewest():
		x.ended = true
	case x.high == 0:
		x.next = min(2*x.low, x.most)
	case x.low == 0:
		x.next = max(x.high-x.step, x.fewest())
		x.step *= 2
	default:
		x.next = (x.low + x.high) / 2
	}
}
