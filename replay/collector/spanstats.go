package collector

import (
	"math"
	"math/big"
	"math/bits"
	"slices"
)

// describe returns the distributions of the latencies, in ms, and of the rates 10^9/ns, in tokens per second.
// Latencies of 0 have no rate. Sums are sums of integers, so that the order does not matter.
func (s *spans) describe() (latencies, rates Distribution) {
	if s.n == 0 {
		return latencies, rates
	}
	t := s.total()
	latencies.setMoments(s.n, t.latencies.sum.integer(), t.latencies.squares.integer(), 1e6)
	latencies.Min, latencies.Max = nanosToMS(t.least), nanosToMS(t.most)
	m := s.n - t.zeros
	var ranks [2 * maxRanks]int64
	for i, p := range wantedPercentiles() {
		ranks[i] = NearestRank(s.n, p)
		ranks[maxRanks+i] = s.n - 1 - NearestRank(max(m, 1), p) // the highest rate is the shortest latency
	}
	at := s.pick(ranks[:], t)
	latencies.setPercentiles(at[:maxRanks], nanosToMS)
	if m == 0 {
		return latencies, rates
	}
	sum, squares, unit := t.joinRates()
	rates.setMoments(m, sum, squares, unit)
	rates.Min, rates.Max = nanosToRate(t.most), nanosToRate(t.leastAbove)
	rates.setPercentiles(at[maxRanks:], nanosToRate)
	return latencies, rates
}

func nanosToMS(n int64) float64   { return float64(n) / 1e6 }
func nanosToRate(n int64) float64 { return 1e9 / float64(n) }

// setMoments sets the mean and the deviation of n numbers in units of 1/unit, given their sum and the sum of their
// squares.
func (d *Distribution) setMoments(n int64, sum, squares *big.Int, unit float64) {
	mean, deviation := momentsOf(n, sum, squares)
	d.Mean, d.Std = mean/unit, deviation/unit
}

func (d *Distribution) setPercentiles(nanos []int64, value func(int64) float64) {
	for i, to := range []*float64{&d.Median, &d.P75, &d.P90, &d.P95, &d.P99} {
		*to = value(nanos[i])
	}
}

// percentile returns the percentile p of the latencies, in ms.
func (s *spans) percentile(p float64) float64 {
	return nanosToMS(s.pick([]int64{NearestRank(s.n, p)}, s.total())[0])
}

// spanTotal is sums over spans.
type spanTotal struct {
	least, most int64
	leastAbove  int64          // the minimum above 0
	zeros       int64          // number of latencies of 0
	coarse      [buckets]int64 // number of latencies by bucketOf
	latencies   moments        // in ns
	rates       [powers]moments
}

// moments is an exact sum of integers, and of their squares.
type moments struct{ sum, squares wide }

// Buckets have one value each up to bucketParts. Wider buckets have 1/bucketParts of their values. All buckets
// together cover latencies below 2^40 ns.
const (
	bucketBits  = 8
	bucketParts = 1 << bucketBits
	buckets     = (40 - bucketBits + 1) * bucketParts
)

func bucketOf(n int64) int {
	shift := max(0, bits.Len64(uint64(n))-1-bucketBits)
	return shift<<bucketBits + int(n>>shift)
}

// firstOf returns the smallest value of a bucket.
func firstOf(bucket int) int64 {
	shift := max(0, bucket>>bucketBits-1)
	return int64(bucket-shift<<bucketBits) << shift
}

// total adds up all latencies.
func (s *spans) total() *spanTotal {
	t := newSpanTotal()
	if s.fold != nil && s.fold.total != nil {
		*t = *s.fold.total
	}
	var buf [mostInSpan]int64
	s.eachKept(func(k *span, offs []byte) { t.addSpan(k.nanos(offs, &buf), int64(k.weight)) })
	return t
}

func newSpanTotal() *spanTotal { return &spanTotal{least: math.MaxInt64, leastAbove: math.MaxInt64} }

// addSpan adds latencies, each of them weight times. addSpan adds single latencies, not runs, if they differ by 2^28 ns
// or more, or if one of them is 0.
func (t *spanTotal) addSpan(nanos []int64, weight int64) {
	least, most := nanos[0], nanos[0]
	for _, n := range nanos {
		least, most = min(least, n), max(most, n)
	}
	if most-least >= 1<<28 || least == 0 && most > 0 {
		for i := range nanos {
			t.addSpan(nanos[i:i+1], weight)
		}
		return
	}
	t.countCoarsely(nanos, least, most, weight)
	t.least, t.most = min(t.least, least), max(t.most, most)
	var sum, squares uint64 // sums of the differences from the minimum
	for _, n := range nanos {
		more := uint64(n - least)
		sum += more
		squares += more * more
	}
	k, w, l := uint64(len(nanos)), uint64(weight), uint64(least)
	t.latencies.sum.addTimes(0, k*l+sum, w)
	t.latencies.squares.addTimes(0, squares, w)
	high, low := bits.Mul64(l, k*l+2*sum)
	t.latencies.squares.addTimes(high, low, w)
	if least == 0 {
		t.zeros += weight * int64(k)
		return
	}
	t.leastAbove = min(t.leastAbove, least)
	t.addRates(nanos, weight)
}

// countCoarsely counts latencies in their buckets.
func (t *spanTotal) countCoarsely(nanos []int64, least, most, weight int64) {
	if b := bucketOf(least); b == bucketOf(most) {
		t.coarse[b] += weight * int64(len(nanos))
		return
	}
	for _, n := range nanos {
		t.coarse[bucketOf(n)] += weight
	}
}

// Rates are float64s with exact sums. Each rate is an integer of 53 bits times a power of two, and rates with the
// same power are added up. Only latencies from 1 to 2^40 ns have rates, which are between 2^-11 and 2^30 tokens per
// second.
const (
	mantissa   = 52
	leastPower = 1023 - 11
	powers     = 42
)

func (t *spanTotal) addRates(nanos []int64, weight int64) {
	var sum, high, low, carry uint64
	power := math.Float64bits(nanosToRate(nanos[0])) >> mantissa
	for _, n := range nanos {
		rate := math.Float64bits(nanosToRate(n))
		if rate>>mantissa != power {
			t.rates[power-leastPower].add(sum, high, low, weight)
			power, sum, high, low = rate>>mantissa, 0, 0, 0
		}
		rate = rate&(1<<mantissa-1) | 1<<mantissa
		sum += rate
		h, l := bits.Mul64(rate, rate)
		low, carry = bits.Add64(low, l, 0)
		high += h + carry
	}
	t.rates[power-leastPower].add(sum, high, low, weight)
}

// add adds a sum and a sum of squares, high·2^64 + low, each multiplied by weight.
func (m *moments) add(sum, high, low uint64, weight int64) {
	m.sum.addTimes(0, sum, uint64(weight))
	m.squares.addTimes(high, low, uint64(weight))
}

// joinRates returns the sum of all rates and the sum of their squares, in units of 1/unit tokens per second.
func (t *spanTotal) joinRates() (sum, squares *big.Int, unit float64) {
	sum, squares = new(big.Int), new(big.Int)
	for i := range t.rates {
		sum.Add(sum, new(big.Int).Lsh(t.rates[i].sum.integer(), uint(i)))
		squares.Add(squares, new(big.Int).Lsh(t.rates[i].squares.integer(), uint(2*i)))
	}
	return sum, squares, math.Ldexp(1, mantissa+1023-leastPower)
}

// momentsOf returns the mean and the standard deviation of n numbers, given their sum and the sum of their squares.
func momentsOf(n int64, sum, squares *big.Int) (mean, std float64) {
	count := big.NewInt(n)
	mean, _ = new(big.Rat).SetFrac(sum, count).Float64()
	// n² times the variance is n·Σx² - (Σx)².
	spread := new(big.Int).Mul(count, squares)
	spread.Sub(spread, new(big.Int).Mul(sum, sum))
	variance, _ := new(big.Rat).SetFrac(spread, new(big.Int).Mul(count, count)).Float64()
	return mean, math.Sqrt(variance)
}

// wide is an integer of 192 bits, the lowest word first.
type wide [3]uint64

// addTimes adds high·2^64 + low, multiplied by times.
func (w *wide) addTimes(high, low, times uint64) {
	h0, l0 := bits.Mul64(low, times)
	h1, l1 := bits.Mul64(high, times)
	middle, carry := bits.Add64(h0, l1, 0)
	top := h1 + carry
	w[0], carry = bits.Add64(w[0], l0, 0)
	w[1], carry = bits.Add64(w[1], middle, carry)
	w[2], _ = bits.Add64(w[2], top, carry)
}

func (w *wide) integer() *big.Int {
	x := new(big.Int)
	for _, word := range []uint64{w[2], w[1], w[0]} {
		x.Lsh(x, 64).Or(x, new(big.Int).SetUint64(word))
	}
	return x
}

// pick returns the latencies at ranks of the sorted latencies. pick divides each bucket that contains a rank into
// parts and counts its latencies. pick repeats the division for the parts that contain a rank, until a part has one
// value.
func (s *spans) pick(ranks []int64, t *spanTotal) []int64 {
	if s.fold != nil && s.fold.spool == nil {
		return t.pickSketched(ranks)
	}
	out := make([]int64, len(ranks))
	order := make([]int, len(ranks))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(min(max(ranks[a]-ranks[b], -1), 1)) })
	cells := t.findCells(ranks, order)
	for len(cells) > 0 {
		s.countCells(cells)
		var next []cell
		for i := range cells {
			next = cells[i].divide(ranks, out, next)
		}
		cells = next
	}
	return out
}

// findCells returns the buckets that contain ranks.
func (t *spanTotal) findCells(ranks []int64, left []int) (cells []cell) {
	below := int64(0)
	for b := 0; len(left) > 0; b++ {
		n := 0
		for n < len(left) && ranks[left[n]] < below+t.coarse[b] {
			n++
		}
		if n > 0 {
			low := firstOf(b)
			cells = append(cells, cell{low: low, size: firstOf(b+1) - low, below: below, ranks: left[:n]})
		}
		left = left[n:]
		below += t.coarse[b]
	}
	return cells
}

// cellParts is the binary logarithm of the number of parts of a cell.
const cellParts = 13

// cell is a range of values that contains ranks.
type cell struct {
	low, size int64
	below     int64 // number of smaller latencies
	ranks     []int // indexes of ranks, ascending
	shift     uint
	counts    []int64 // latencies in each part of 1<<shift values
}

// openCells divides cells into parts.
func openCells(cells []cell) {
	for i := range cells {
		c := &cells[i]
		c.shift = uint(max(0, bits.Len64(uint64(c.size-1))-cellParts))
		c.counts = make([]int64, (c.size-1)>>c.shift+1)
	}
}

// countCells counts the latencies in the parts of cells, which must ascend.
func (s *spans) countCells(cells []cell) {
	openCells(cells)
	var buf [mostInSpan]int64
	end := cells[len(cells)-1].low + cells[len(cells)-1].size
	s.each(func(k *span, offs []byte) {
		least, most := k.bounds()
		if most < cells[0].low || least >= end {
			return
		}
		i := 0
		for cells[i].low+cells[i].size <= least {
			i++
		}
		if cells[i].low <= most {
			countNear(cells[i:], k.nanos(offs, &buf), int64(k.weight))
		}
	})
}

// countNear counts latencies in the parts of cells. The latencies must not be below the first cell.
func countNear(cells []cell, nanos []int64, weight int64) {
	for _, n := range nanos {
		for i := range cells {
			c := &cells[i]
			if at := n - c.low; at < c.size {
				if at >= 0 {
					c.counts[at>>c.shift] += weight
				}
				break
			}
		}
	}
}

// divide finds the parts that contain ranks. Values of parts with one value are written to out, and other parts are
// appended to next.
func (c *cell) divide(ranks, out []int64, next []cell) []cell {
	below, left := c.below, c.ranks
	for part, count := range c.counts {
		n := 0
		for n < len(left) && ranks[left[n]] < below+count {
			n++
		}
		low := c.low + int64(part)<<c.shift
		if n > 0 && c.shift > 0 {
			next = append(next, cell{low: low, size: min(1<<c.shift, c.low+c.size-low), below: below, ranks: left[:n]})
		} else {
			for _, i := range left[:n] {
				out[i] = low
			}
		}
		left = left[n:]
		below += count
	}
	return next
}
