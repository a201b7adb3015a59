package blockhash

import (
	"slices"

	"github.com/zeebo/xxh3"
)

// Options are what a hash takes in beside the tokens of a block.
type Options struct {
	LoRA  string // adapter name; "" is none
	Eagle bool   // a block's window reaches one token into the next block
	// Multimodal lists, per block, the hashes of the objects that overlap it. A
	// shorter list leaves the later blocks plain.
	Multimodal [][]uint64
}

// Request returns the local hashes of the full blocks of a token sequence;
// trailing tokens that fill no block are left out. blockTokens <= 0 gives none.
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
