package collector

import (
	"math"
	"math/bits"
	"slices"
)

// digitBits is the width of the digits for sorting and selection. 2048 counters fit in the first-level cache together
// with the data.
const (
	digitBits = 11
	digitMask = 1<<digitBits - 1
)

// sortBelow is the length below which sorting is faster than counting digits.
const sortBelow = 256

// pickRanks sets out[i] to the value at index ranks[i] of the sorted values, which must be >= 0. The ranks must
// ascend. values and buf, of the same length, are overwritten.
//
// pickRanks counts values by the leading digit in which they differ. pickRanks continues only with the buckets that
// contain a rank.
func pickRanks(values []float64, ranks []int, out []float64, buf []float64) {
	high := bits.Len64(differingBits(values))
	if len(values) < sortBelow || high == 0 {
		buf = append(buf[:0], values...)
		slices.Sort(buf)
		for i, r := range ranks {
			out[i] = buf[r]
		}
		return
	}
	shift := max(0, high-digitBits)
	var next [1 << digitBits]int32
	for _, v := range values {
		next[math.Float64bits(v)>>shift&digitMask]++
	}
	chosen := chooseBuckets(&next, ranks)
	buf = buf[:len(values)]
	for _, v := range values {
		if to := &next[math.Float64bits(v)>>shift&digitMask]; *to >= 0 {
			buf[*to] = v
			*to++
		}
	}
	for _, b := range chosen {
		inside := buf[b.from:b.to]
		if b.ranks == 0 {
			break
		}
		var relative [maxRanks]int
		for i, r := range ranks[:b.ranks] {
			relative[i] = r - b.below
		}
		pickRanks(inside, relative[:b.ranks], out, values)
		ranks, out = ranks[b.ranks:], out[b.ranks:]
	}
}

// maxRanks is the maximum number of ranks in a call of pickRanks.
const maxRanks = 5

// bucket is the range, in the scratch buffer, of the values with one digit.
type bucket struct {
	from, to int
	below    int // number of values with smaller digits
	ranks    int // number of ranks within the bucket
}

// chooseBuckets finds the buckets that contain a rank. counts is the number of values of each digit. At return,
// counts is the start index of each chosen bucket, and -1 for other digits.
func chooseBuckets(counts *[1 << digitBits]int32, ranks []int) (chosen [maxRanks]bucket) {
	below, at, found := 0, 0, 0
	for digit, count := range counts {
		n := 0
		for n < len(ranks) && ranks[n] < below+int(count) {
			n++
		}
		counts[digit] = -1
		if n > 0 {
			counts[digit] = int32(at)
			chosen[found] = bucket{from: at, to: at + int(count), below: below, ranks: n}
			at += int(count)
			ranks = ranks[n:]
			found++
		}
		below += int(count)
	}
	return chosen
}

// differingBits returns the bits in which the values differ.
func differingBits(values []float64) (differ uint64) {
	first := math.Float64bits(values[0])
	for _, v := range values {
		differ |= math.Float64bits(v) ^ first
	}
	return differ
}

// radixSort sorts values by their bits, ascending. radixSort returns the sorted list and the other list. Each result
// may use the memory of list or of spare, which have the same length.
//
// radixSort reads only the bits in which the keys differ. Latencies share most of their leading bits, and as
// multiples of the clock's resolution they share trailing bits.
func radixSort(list, spare weighted) (sorted, other weighted) {
	var differ uint64
	for _, k := range list.bits {
		differ |= k ^ list.bits[0]
	}
	for shift := bits.TrailingZeros64(differ); shift < bits.Len64(differ); shift += digitBits {
		radixPass(list, spare, shift)
		list, spare = spare, list
	}
	return list, spare
}

// radixPass sorts values by the digit at shift, stably.
func radixPass(from, to weighted, shift int) {
	keys, weights := from.bits, from.counts[:len(from.bits)]
	keysTo, weightsTo := to.bits, to.counts
	var next [1 << digitBits]int32
	for _, k := range keys {
		next[k>>shift&digitMask]++
	}
	at := int32(0)
	for i, n := range next {
		next[i] = at
		at += n
	}
	for i, k := range keys {
		to := &next[k>>shift&digitMask]
		keysTo[*to], weightsTo[*to] = k, weights[i]
		*to++
	}
}
