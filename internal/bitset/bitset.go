// Package bitset implements a set of small non-negative integers, with one bit per integer.
package bitset

import "math/bits"

// Set is a set of integers >= 0. The zero value is an empty set.
type Set []uint64

// Add adds i to the set.
func (s *Set) Add(i int) {
	for i/64 >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[i/64] |= 1 << (i % 64)
}

// Remove removes i from the set.
func (s Set) Remove(i int) {
	if i/64 < len(s) {
		s[i/64] &^= 1 << (i % 64)
	}
}

// Min returns the smallest integer of the set, or -1 if the set is empty.
func (s Set) Min() int {
	for i, word := range s {
		if word != 0 {
			return 64*i + bits.TrailingZeros64(word)
		}
	}
	return -1
}
