package planner

import "math"

// pair is the numbers of prefill and decode workers.
type pair struct{ p, d int }

// pairBudget is a budget of the GPUs of two pools.
type pairBudget struct {
	budget
	gpus, least pair // GPUs per worker, and minimum of workers
}

func (b *pairBudget) count(n pair) int { return n.p*b.gpus.p + n.d*b.gpus.d }

// allows reports whether a pair is within a budget.
func (b *pairBudget) allows(n pair, band budget) bool {
	return band.has(b.count(n), band.slack(b.gpus.p, b.gpus.d))
}

// clamp returns a pair within a budget: both pools shrink or grow in proportion.
func (b *pairBudget) clamp(n pair, band budget) pair {
	total := b.count(n)
	switch {
	case b.allows(n, band):
		return n
	case band.max >= 0 && total > band.max && band.max < b.count(b.least):
		return pair{}
	case band.max >= 0 && total > band.max:
		most := divideDown(band.max-b.least.d*b.gpus.d, b.gpus.p)
		p := max(b.least.p, min(most, int(float64(n.p)*(float64(band.max)/float64(total)))))
		return pair{p, max(b.least.d, divideDown(band.max-p*b.gpus.p, b.gpus.d))}
	}
	p := int(math.Ceil(float64(band.min) / 2 / float64(b.gpus.p)))
	if total > 0 {
		p = int(math.Ceil(float64(n.p) * (float64(band.min) / float64(total))))
	}
	grown := pair{p: max(b.least.p, p)}
	grown.d = max(b.least.d, divideUp(max(0, band.min-grown.p*b.gpus.p), b.gpus.d))
	shrinks := grown.d < n.d
	grown.d = max(n.d, grown.d)
	switch {
	case band.max < 0 || b.count(grown) <= band.max:
		return grown
	case !shrinks:
		return n
	}
	return b.fit(n, pair{grown.p, n.d}, band)
}

// fit returns the pair between now and want that is nearest to want within a budget. If one pool grows and the other
// shrinks, both must change, or neither.
func (b *pairBudget) fit(now, want pair, band budget) pair {
	low := pair{max(min(now.p, want.p), b.least.p), max(min(now.d, want.d), b.least.d)}
	high := pair{max(now.p, want.p), max(now.d, want.d)}
	if band.max >= 0 {
		high = pair{min(high.p, divideDown(band.max-low.d*b.gpus.d, b.gpus.p)), min(high.d, divideDown(band.max-low.p*b.gpus.p, b.gpus.d))}
	}
	if band.min >= 0 {
		floor := band.min - band.slack(b.gpus.p, b.gpus.d)
		low = pair{max(low.p, divideUp(floor-high.d*b.gpus.d, b.gpus.p)), max(low.d, divideUp(floor-high.p*b.gpus.p, b.gpus.d))}
	}
	switch {
	case low.p > high.p || low.d > high.d:
		return now
	case want.p >= b.least.p && want.d >= b.least.d && b.allows(want, band):
		return want
	}
	f := fitting{b: b, now: now, want: want, band: band, low: low, high: high, best: now}
	f.swapped = high.p-low.p > high.d-low.d
	for n := f.order(low).p; n <= f.order(high).p; n++ {
		f.tryOthers(n)
	}
	return f.best
}

// fitting is the search of fit. fitting enumerates the numbers of the pool with the smaller range.
type fitting struct {
	b         *pairBudget
	now, want pair
	band      budget
	low, high pair
	swapped   bool // the enumerated pool is the decode pool
	best      pair
	score     [5]int
	found     bool
}

// order returns the number of the enumerated pool, then that of the other.
func (f *fitting) order(n pair) pair {
	if f.swapped {
		return pair{n.d, n.p}
	}
	return n
}

// tryOthers tries the number of the other pool that is nearest to want.
func (f *fitting) tryOthers(fixed int) {
	gpus, now, want := f.order(f.b.gpus), f.order(f.now), f.order(f.want).d
	low, high := f.order(f.low).d, f.order(f.high).d
	if f.band.min >= 0 {
		low = max(low, divideUp(f.band.min-f.band.slack(gpus.p, gpus.d)-fixed*gpus.p, gpus.d))
	}
	if f.band.max >= 0 {
		high = min(high, divideDown(f.band.max-fixed*gpus.p, gpus.d))
	}
	if isOpposing(f.now, f.want) {
		switch {
		case fixed == now.p:
			want, low, high = now.d, max(low, now.d), min(high, now.d)
		case want > now.d:
			low = max(low, now.d+1)
		default:
			high = min(high, now.d-1)
		}
	}
	if low <= high {
		f.consider(f.order(pair{fixed, min(max(want, low), high)}))
	}
}

// consider keeps the better of n and the best pair so far.
func (f *fitting) consider(n pair) {
	if !f.b.allows(n, f.band) {
		return
	}
	moved := pair{measureGap(n.p, f.now.p), measureGap(n.d, f.now.d)}
	asked := pair{measureGap(f.want.p, f.now.p), measureGap(f.want.d, f.now.d)}
	score := [5]int{measureGap(n.p, f.want.p) + measureGap(n.d, f.want.d), measureGap(moved.p*asked.d, moved.d*asked.p), -(moved.p + moved.d), n.p, n.d}
	if f.found && !isBefore(score, f.score) {
		return
	}
	f.best, f.score, f.found = n, score, true
}

func isBefore(a, b [5]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// isOpposing reports whether one pool grows and the other shrinks.
func isOpposing(now, want pair) bool {
	return want.p < now.p && want.d > now.d || want.p > now.p && want.d < now.d
}

// guard limits a change from now to want. No pool changes in the opposite direction. held reports whether a bound forbids
// the change.
func (b *pairBudget) guard(now, want pair) (n pair, held bool) {
	band, total := b.budget, b.count(now)
	down, up := want.p < now.p || want.d < now.d, want.p > now.p || want.d > now.d
	switch {
	case !b.allows(now, band):
		return b.clamp(now, band), true
	case total <= band.min && down && !up:
		return now, true
	case total <= band.min && isOpposing(now, want), band.max >= 0 && total >= band.max && up && isOpposing(now, want):
		n = b.fit(now, want, band)
		return n, n == now
	case band.max >= 0 && total >= band.max && up:
		return now, true
	}
	n = b.clamp(want, band)
	if n.p < min(now.p, want.p) || n.p > max(now.p, want.p) || n.d < min(now.d, want.d) || n.d > max(now.d, want.d) || !b.allows(n, band) {
		return now, true
	}
	return n, false
}

func measureGap(a, b int) int { return max(a-b, b-a) }

func divideDown(a, b int) int { return -divideUp(-a, b) }
