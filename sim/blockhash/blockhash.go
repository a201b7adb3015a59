// Package blockhash hashes blocks of tokens with the hashes of KV-aware routers and engines: XXH3-64 with seed 1337
// (docs/rules/router.md "Hashes").
package blockhash

import (
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"
)

// Seed is the seed of every hash of a plain text block.
const Seed = 1337

// Bytes returns the hash of b.
func Bytes(b []byte) uint64 { return xxh3.HashSeed(b, Seed) }

// Tokens returns the local hash of a block: the hash of its tokens without their prefix.
func Tokens(block []uint32) uint64 { return hashTokens(block, nil, Seed) }

// Chain returns the sequence hash of a block: its local hash chained to the sequence hash of the previous block. The
// sequence hash of the first block is its local hash.
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

// Options are the inputs of a hash besides the tokens of a block.
type Options struct {
	LoRA  string // adapter name; "" is none
	Eagle bool   // the window of a block includes the first token of the next block
	// Multimodal lists, per block, the hashes of the objects that overlap it. Blocks after the end of the list have
	// no objects.
	Multimodal [][]uint64
}

// Request returns the local hashes of the full blocks of a token sequence. Trailing tokens that fill no block are
// ignored. With blockTokens <= 0 there are no hashes.
func Request(seq []uint32, blockTokens int, o Options) []uint64 {
	if blockTokens <= 0 {
		return nil
	}
	seed := uint64(Seed)
	if o.LoRA != "" {
		seed += xxh3.HashString(o.LoRA)
	}
	window := blockTokens
	if o.Eagle {
		window++
	}
	var out []uint64
	for k := 0; k*blockTokens+window <= len(seq); k++ {
		var extra []uint64
		if k < len(o.Multimodal) {
			extra = slices.Clone(o.Multimodal[k])
			slices.Sort(extra)
		}
		out = append(out, hashTokens(seq[k*blockTokens:k*blockTokens+window], extra, seed))
	}
	return out
}

// Sequence returns the sequence hashes of consecutive blocks from their local
// hashes.
func Sequence(local []uint64) []uint64 {
	out := make([]uint64, len(local))
	for i, h := range local {
		if i == 0 {
			out[i] = h
		} else {
			out[i] = Chain(out[i-1], h)
		}
	}
	return out
}

// Checksum returns the XXH3-64 of the concatenation of parts, with seed 0. Checksum is for frames on a wire, not for
// blocks.
func Checksum(parts ...[]byte) uint64 {
	var only []byte
	full := 0
	for _, p := range parts {
		if len(p) > 0 {
			only, full = p, full+1
		}
	}
	if full <= 1 {
		return xxh3.Hash(only)
	}
	h := xxh3.New()
	for _, p := range parts {
		_, _ = h.Write(p) // Write of a hash never fails
	}
	return h.Sum64()
}
