package sim

import "math/rand/v2"

// NewRand returns the stream of random numbers for seed and stream. The same pair always gives the same numbers, and
// streams with different names are independent.
func NewRand(seed uint64, stream string) *rand.Rand {
	return rand.New(rand.NewPCG(seed, hashStream(seed, stream)))
}

// hashStream returns FNV-1a over the eight bytes of seed and the bytes of stream.
func hashStream(seed uint64, stream string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range 8 {
		h = (h ^ seed>>(8*i)&0xff) * prime
	}
	for i := range len(stream) {
		h = (h ^ uint64(stream[i])) * prime
	}
	return h
}

// MixBits scrambles x: it is the finalizer of SplitMix64.
func MixBits(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
