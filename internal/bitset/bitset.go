// Package bitset is a set of small numbers, a bit for each.
package bitset

import "math/bits"

// Set is a set of numbers from 0 on. The zero value is empty.
type Set []uint64

// Add puts a number into the set.
func (s *Set) Add(i int) {
	for i/64 >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[i/64] |= 1 << (i % 64)
}

// Remove takes a number out of the set.
func (s Set) Remove(i int) {
	if i/64 < len(s) {
		s[i/64] &^= 1 << (i % 64)
	}
}

// Min returns the smallest number of the set, -1 when it is empty.
func (s Set) Min() int {
	for i, word := range s {
		if word != 0 {
			return 64*i + bits.TrailingZeros64(word)
		}
	}
	return -1
}
