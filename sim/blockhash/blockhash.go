// Package blockhash hashes blocks of tokens as KV-aware routers and engines
// name them: XXH3-64 with seed 1337 (docs/rules/router.md "Hashes").
package blockhash

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// Seed is the seed of every hash of a plain text block.
const Seed = 1337

// Bytes returns the hash of b.
func Bytes(b []byte) uint64 { return xxh3.HashSeed(b, Seed) }

// Tokens returns the local hash of a block: its tokens alone.
func Tokens(block []uint32) uint64 { return hashTokens(block, nil, Seed) }

// Chain returns the sequence hash of a block: its local hash chained to the
// sequence hash of the block before it. The first block's is its local hash.
func Chain(parent, local uint64) uint64 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], parent)
	binary.LittleEndian.PutUint64(b[8:], local)
	return xxh3.HashSeed(b[:], Seed)
}

func hashTokens(block []uint32, extra []uint64, seed uint64) uint64 {
	b := make([]byte, 0, 4*len(block)+8*len(extra))
	for _, t := range block {
		b = binary.LittleEndian.AppendUint32(b, t)
	}
	for _, e := range extra {
		b = binary.LittleEndian.AppendUint64(b, e)
	}
	return xxh3.HashSeed(b, seed)
}
