package policy

import (
	"encoding/binary"
	"math/bits"
)

// ringSeed is the seed of all hashes of a ring.
const ringSeed = 4193360111

// ringHash is the hash for workers and sessions on the ring of vllm-router. ringHash is MurmurHash64A of FurcHash of
// a text with 2^23 - 1 buckets, as 4 bytes, little-endian.
func ringHash(key string) uint64 {
	var place [4]byte
	binary.LittleEndian.PutUint32(place[:], furcHash([]byte(key), 1<<23-1))
	return murmur64A(place[:], ringSeed)
}

// The constants are those of FurcHash, the consistent hash of Facebook's mcrouter.
const (
	furcTries = 32
	furcShift = 23
)

// furcHash is FurcHash of key with m buckets, m > 1. furcHash walks a tree from its widest level, with one bit of the
// hash for each level, until a bit is set. The bits after the set bit are the bucket within the level. If that bucket
// does not exist, furcHash continues with the next bits.
func furcHash(key []byte, m uint32) uint32 {
	b := bitStream{words: []uint64{murmur64A(key, ringSeed)}}
	depth := bits.Len32(m - 1)
	at := depth
	for range furcTries {
		for ; !b.isSet(at); at = depth {
			if depth == 0 {
				return 0
			}
			depth--
		}
		at += furcShift
		place := uint32(1)
		for range max(depth-1, 0) {
			place <<= 1
			if b.isSet(at) {
				place |= 1
			}
			at += furcShift
		}
		if place < m {
			return place
		}
	}
	return 0
}

// bitStream is the bits of a hash, then of the hash of that hash, and so on.
type bitStream struct{ words []uint64 }

func (b *bitStream) isSet(i int) bool {
	for i/64 >= len(b.words) {
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], b.words[len(b.words)-1])
		b.words = append(b.words, murmur64A(last[:], ringSeed))
	}
	return b.words[i/64]>>(i%64)&1 == 1
}

// murmur64A returns the MurmurHash64A of key.
func murmur64A(key []byte, seed uint64) uint64 {
	const m, r = 0xc6a4a7935bd1e995, 47
	h := seed ^ uint64(len(key))*m
	for ; len(key) >= 8; key = key[8:] {
		k := binary.LittleEndian.Uint64(key) * m
		k ^= k >> r
		h = (h ^ k*m) * m
	}
	if len(key) > 0 {
		var rest [8]byte
		copy(rest[:], key)
		h = (h ^ binary.LittleEndian.Uint64(rest[:])) * m
	}
	h = (h ^ h>>r) * m
	return h ^ h>>r
}
