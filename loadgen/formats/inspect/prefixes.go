package inspect

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/replay-llm/replay/internal/probe"
)

// seen remembers blocks by their content and all content before them.
//
// A prefix of blocks is one number, chained from its ids. Small ids, which most traces have, index a table that keeps
// half of that number, if an id always has the same prefix. Other ids go to a set that is thinned out when it is full:
// each remaining id stands for weight ids.
type seen struct {
	pages [][]uint32 // of halves of chains, by id; 0: not seen
	rest  counter
}

const (
	pageBits   = 16
	pagedIDs   = 1 << 25 // ids below it are in pages, 128 MiB in all
	setEntries = 1 << 21 // 2 Mi entries, 64 MiB
	// groupEntries is for conversations: 1 Mi entries, 32 MiB.
	groupEntries = 1 << 20
)

func newSeen() seen { return seen{rest: newCounter(setEntries)} }

// linkChain is the number of a beginning that is one id longer.
func linkChain(chain, id uint64) uint64 { return mixBits(chain ^ mixBits(id+1)) }

func mixBits(x uint64) uint64 {
	hi, lo := bits.Mul64(x^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return hi ^ lo
}

// visitBlock reports whether the block was there before, and for how many blocks the
// answer stands: 0 for one that is not read.
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

// sampled reports whether not all blocks were read.
func (s *seen) sampled() bool { return s.rest.weight() > 1 }

// counter counts how often keys come, each a hash. When there are too many, it
// keeps only every second, fourth, … of them.
type counter struct {
	counts probe.Table[uint64, uint32] // by key, which is never 0
	most   int                         // entries
	thin   int                         // keys with their lowest thin bits 0 are kept
}

func newCounter(most int) counter {
	return counter{counts: probe.New[uint64, uint32](0), most: most}
}

// weight is for how many keys each that is held stands.
func (c *counter) weight() float64 { return math.Ldexp(1, c.thin) }

// visitKey counts key, and returns whether it came before and for how many keys it stands: 0 when it is not kept.
func (c *counter) visitKey(key uint64) (weight float64, known bool) {
	if key == 0 {
		key = 1 << 63
	}
	if key&(1<<c.thin-1) != 0 {
		return 0, false
	}
	weight = c.weight()
	n, fresh := c.counts.Put(key)
	*n = max(*n, *n+1) // it stays where it would begin anew
	for c.counts.Len() > c.most {
		c.thinOut()
	}
	return weight, !fresh
}

// thinOut keeps half of the keys.
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

// hashBytes is a number for a name.
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
