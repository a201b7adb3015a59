package router

import "math/bits"

// memberSet is a set of member numbers.
type memberSet struct {
	low   uint64   // members 0 to 63
	high  []uint64 // members from 64
	count int
}

func (s *memberSet) wordOf(n int32) *uint64 {
	if n < 64 {
		return &s.low
	}
	i := int(n>>6) - 1
	for i >= len(s.high) {
		s.high = append(s.high, 0)
	}
	return &s.high[i]
}

func (s *memberSet) has(n int32) bool {
	if n < 64 {
		return s.low>>uint(n)&1 != 0
	}
	i := int(n>>6) - 1
	return i < len(s.high) && s.high[i]>>(uint(n)&63)&1 != 0
}

func (s *memberSet) add(n int32) {
	w := s.wordOf(n)
	if bit := uint64(1) << (uint(n) & 63); *w&bit == 0 {
		*w |= bit
		s.count++
	}
}

func (s *memberSet) remove(n int32) {
	if s.has(n) {
		*s.wordOf(n) &^= 1 << (uint(n) & 63)
		s.count--
	}
}

func (s *memberSet) copy(o *memberSet) {
	s.low, s.count = o.low, o.count
	s.high = append(s.high[:0], o.high...)
}

func (s *memberSet) intersect(o *memberSet) {
	s.low &= o.low
	s.count = bits.OnesCount64(s.low)
	s.high = s.high[:min(len(s.high), len(o.high))]
	for i := range s.high {
		s.high[i] &= o.high[i]
		s.count += bits.OnesCount64(s.high[i])
	}
}

// forEach calls f for every member, in ascending order.
func (s *memberSet) forEach(f func(n int32)) {
	for word := s.low; word != 0; word &= word - 1 {
		f(int32(bits.TrailingZeros64(word)))
	}
	for i, word := range s.high {
		for ; word != 0; word &= word - 1 {
			f(int32((i+1)<<6 + bits.TrailingZeros64(word)))
		}
	}
}
