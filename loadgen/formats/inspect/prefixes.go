package inspect

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/replay-llm/replay/internal/probe"
)

// seen is a set of blocks. A block is identified by its content and by the content of all blocks before it.
//
// A prefix of blocks is one number, hashed from its ids. Ids below pagedIDs, as in most traces, index a table. The
// table has half of the hash of the first prefix that ends with the id. All other prefixes are stored in a counter,
// which keeps only a sample if it is full.
type seen struct {
	pages [][]uint32 // half of the hash of the prefix, by id; 0 if the id was not seen
	rest  counter
}

const (
	pageBits   = 16
	pagedIDs   = 1 << 25 // ids below it have an entry in pages, 128 MiB in total
	setEntries = 1 << 21 // 2 Mi entries, 64 MiB
	// groupEntries is the limit for conversations: 1 Mi entries, 32 MiB.
	groupEntries = 1 << 20
)

func newSeen() seen { return seen{rest: newCounter(setEntries)} }

// linkChain returns the hash of a prefix that is extended by id.
func linkChain(chain, id uint64) uint64 { return mixBits(chain ^ mixBits(id+1)) }

func mixBits(x uint64) uint64 {
	hi, lo := bits.Mul64(x^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return hi ^ lo
}

// visitBlock adds a block and reports whether it was known. weight is the number of blocks that it represents, or 0
// if the block is not in the sample.
func (s *seen) visitBlock(id, chain uint64) (weight float64, known bool) {
	if id < pagedIDs {
		page := int(id >> pageBits)
		for page >= len(s.pages) {
			s.pages = append(s.pages, nil)
		}
		if s.pages[page] == nil {
			s.pages[page] = make([]uint32, 1<<pageBits)
		}
		half := uint32(chain>>32) | 1
		slot := &s.pages[page][id&(1<<pageBits-1)]
		switch *slot {
		case 0:
			*slot = half
			return 1, false
		case half:
			return 1, true
		}
	}
	return s.rest.visitKey(chain)
}

// sampled reports whether only a sample of the blocks is stored.
func (s *seen) sampled() bool { return s.rest.weight() > 1 }

// counter counts how often each key occurs. Keys are hashes. If there are too many keys, counter keeps only every
// second key, then every fourth key, and so on.
type counter struct {
	counts probe.Table[uint64, uint32] // by key; 0 is not a key
	most   int                         // maximum number of keys
	thin   int                         // only keys with this number of lowest bits 0 are kept
}

func newCounter(most int) counter {
	return counter{counts: probe.New[uint64, uint32](0), most: most}
}

// weight returns the number of keys that each stored key represents.
func (c *counter) weight() float64 { return math.Ldexp(1, c.thin) }

// visitKey counts key and reports whether it was known. weight is the number of keys that it represents, or 0 if the
// key is not kept.
func (c *counter) visitKey(key uint64) (weight float64, known bool) {
	if key == 0 {
		key = 1 << 63
	}
	if key&(1<<c.thin-1) != 0 {
		return 0, false
	}
	weight = c.weight()
	n, fresh := c.counts.Put(key)
	*n = max(*n, *n+1) // on overflow the count stays at its maximum
	for c.counts.Len() > c.most {
		c.thinOut()
	}
	return weight, !fresh
}

// thinOut drops about half of the keys.
func (c *counter) thinOut() {
	c.thin++
	left := probe.New[uint64, uint32](0)
	for key, n := range c.counts.All() {
		if key&(1<<c.thin-1) == 0 {
			kept, _ := left.Put(key)
			*kept = *n
		}
	}
	c.counts = left
}

// hashBytes returns a hash of a name.
func hashBytes(name []byte) uint64 {
	h := uint64(len(name))
	for len(name) >= 8 {
		h = mixBits(h ^ binary.LittleEndian.Uint64(name))
		name = name[8:]
	}
	for _, c := range name {
		h = h<<8 | uint64(c)
	}
	return mixBits(h)
}
