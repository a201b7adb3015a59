package policy

import (
	"encoding/binary"
	"math/bits"
)

// blakeHash returns the first 8 bytes of the BLAKE3 hash of a text, little-endian.
func blakeHash(text string) uint64 {
	cv := blakeTree([]byte(text), 0, blakeRoot)
	return uint64(cv[0]) | uint64(cv[1])<<32
}

// The constants are flags of a block.
const (
	blakeStart  = 1 << iota // first block of a chunk
	blakeEnd                // last block of a chunk
	blakeParent             // a combination of two chaining values
	blakeRoot
)

// The constants are sizes in bytes.
const (
	blakeBlock = 64
	blakeChunk = 1024
)

// blakeIV returns the chaining value before the first block.
func blakeIV() [8]uint32 {
	return [8]uint32{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}
}

// blakeOrder is the permutation of the words of a block between two rounds of a compression.
const blakeOrder = "\x02\x06\x03\x0a\x07\x00\x04\x0d\x01\x0b\x0c\x05\x09\x0e\x0f\x08"

// blakeTree returns the chaining value of an input. chunk is the number of its first chunk.
func blakeTree(input []byte, chunk uint64, root uint32) [8]uint32 {
	if len(input) <= blakeChunk {
		return blakeChain(input, chunk, root)
	}
	// the largest power of two of whole chunks that is less than the input
	left := blakeChunk << (bits.Len(uint(len(input)-1)/blakeChunk) - 1)
	a, b := blakeTree(input[:left], chunk, 0), blakeTree(input[left:], chunk+uint64(left/blakeChunk), 0)
	var words [16]uint32
	copy(words[:8], a[:])
	copy(words[8:], b[:])
	return blakeCompress(blakeIV(), words, 0, blakeBlock, blakeParent|root)
}

// blakeChain returns the chaining value of one chunk.
func blakeChain(input []byte, chunk uint64, root uint32) [8]uint32 {
	cv, flags := blakeIV(), uint32(blakeStart)
	for {
		var block [blakeBlock]byte
		n := copy(block[:], input)
		input = input[n:]
		if len(input) == 0 {
			flags |= blakeEnd | root
		}
		var words [16]uint32
		for i := range words {
			words[i] = binary.LittleEndian.Uint32(block[4*i:])
		}
		if cv = blakeCompress(cv, words, chunk, uint32(n), flags); len(input) == 0 {
			return cv
		}
		flags = 0
	}
}

// blakeCompress compresses a block of n bytes into a chaining value.
func blakeCompress(cv [8]uint32, words [16]uint32, chunk uint64, n, flags uint32) [8]uint32 {
	iv := blakeIV()
	v := [16]uint32{8: iv[0], iv[1], iv[2], iv[3], uint32(chunk), uint32(chunk >> 32), n, flags}
	copy(v[:8], cv[:])
	mix := func(a, b, c, d int, x, y uint32) {
		v[a] += v[b] + x
		v[d] = bits.RotateLeft32(v[d]^v[a], -16)
		v[c] += v[d]
		v[b] = bits.RotateLeft32(v[b]^v[c], -12)
		v[a] += v[b] + y
		v[d] = bits.RotateLeft32(v[d]^v[a], -8)
		v[c] += v[d]
		v[b] = bits.RotateLeft32(v[b]^v[c], -7)
	}
	for range 7 {
		for i := range 4 {
			mix(i, 4+i, 8+i, 12+i, words[2*i], words[2*i+1])
		}
		for i := range 4 {
			mix(i, 4+(i+1)%4, 8+(i+2)%4, 12+(i+3)%4, words[8+2*i], words[9+2*i])
		}
		was := words
		for i := range words {
			words[i] = was[blakeOrder[i]]
		}
	}
	for i := range cv {
		cv[i] = v[i] ^ v[8+i]
	}
	return cv
}
