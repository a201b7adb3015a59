package blockhash

import "github.com/zeebo/xxh3"

// Checksum returns the XXH3-64 of parts one after another, with seed 0: that of
// frames on a wire, not of blocks.
func Checksum(parts ...[]byte) uint64 {
	if len(parts) == 1 {
		return xxh3.Hash(parts[0])
	}
	h := xxh3.New()
	for _, p := range parts {
		_, _ = h.Write(p) // a hash takes everything
	}
	return h.Sum64()
}
