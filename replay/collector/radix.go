package collector

import "math/bits"

// digitBits is the width of the digits the sort and the search below look at:
// 2048 counters fit the first-level cache beside the data.
const (
	digitBits = 11
	digitMask = 1<<digitBits - 1
)

// radixSort sorts keys ascending and moves the weight of each along with it. It
// returns the sorted lists, in the memory given or in new memory.
//
// It looks only at the bits in which the keys differ: latencies share most of
// their leading bits, and as multiples of the clock's resolution their trailing
// ones.
func radixSort(keys []uint64, weights []int64) ([]uint64, []int64) {
	var differ uint64
	for _, k := range keys {
		differ |= k ^ keys[0]
	}
	if differ == 0 {
		return keys, weights
	}
	keysTo, weightsTo := make([]uint64, len(keys)), make([]int64, len(keys))
	for shift := bits.TrailingZeros64(differ); shift < bits.Len64(differ); shift += digitBits {
		radixPass(keys, keysTo, weights, weightsTo, shift)
		keys, keysTo = keysTo, keys
		weights, weightsTo = weightsTo, weights
	}
	return keys, weights
}

// radixPass moves keys and weights into the order of the digit at shift.
func radixPass(keys, keysTo []uint64, weights, weightsTo []int64, shift int) {
	var next [1 << digitBits]int32
	for _, k := range keys {
		next[k>>shift&digitMask]++
	}
	at := int32(0)
	for i, n := range next {
		next[i] = at
		at += n
	}
	weights = weights[:len(keys)]
	for i, k := range keys {
		to := &next[k>>shift&digitMask]
		keysTo[*to], weightsTo[*to] = k, weights[i]
		*to++
	}
}
