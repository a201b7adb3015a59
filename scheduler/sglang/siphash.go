package sglang

import "math/bits"

// sipChain returns SipHash-1-3 with key 0, 0 over 16 bytes, prev and local in
// little endian: how the reference chains the hashes of tokens.
func sipChain(prev, local uint64) uint64 {
	s := sip{0x736f6d6570736575, 0x646f72616e646f6d, 0x6c7967656e657261, 0x7465646279746573}
	const length = uint64(16) << 56
	for _, word := range [...]uint64{prev, local, length} {
		s[3] ^= word
		s.round()
		s[0] ^= word
	}
	s[2] ^= 0xff
	for range 3 {
		s.round()
	}
	return s[0] ^ s[1] ^ s[2] ^ s[3]
}

type sip [4]uint64

func (s *sip) round() {
	s[0] += s[1]
	s[2] += s[3]
	s[1] = bits.RotateLeft64(s[1], 13) ^ s[0]
	s[3] = bits.RotateLeft64(s[3], 16) ^ s[2]
	s[0] = bits.RotateLeft64(s[0], 32)
	s[2] += s[1]
	s[0] += s[3]
	s[1] = bits.RotateLeft64(s[1], 17) ^ s[2]
	s[3] = bits.RotateLeft64(s[3], 21) ^ s[0]
	s[2] = bits.RotateLeft64(s[2], 32)
}
