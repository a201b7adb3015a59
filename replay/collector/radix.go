package collector

import "math/bits"

// digitBits is the width of the digits the sort and the search below look at:
// 2048 counters fit the first-level cache beside the data.
const (
	digitBits = 11
	digitMask = 1<<digitBits - 1
)

// radixSort sorts values ascending by their bits. It returns the sorted list,
// which is in the memory of the one given or in the spare list, as long, and
// the other list.
//
// It looks only at the bits in which the keys differ: latencies share most of
// their leading bits, and as multiples of the clock's resolution their trailing
// ones.
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

// radixPass moves values into the order of the digit at shift.
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
