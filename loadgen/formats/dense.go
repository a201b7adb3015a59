package formats

import "math/bits"

// Dense gives ids new numbers from 0 up, in the order in which they appear, and
// ids to blocks that have none. It keeps 12 to 24 bytes per id.
type Dense struct {
	block int
	keys  []uint64
	to    []uint32 // by place of keys: the new number and 1; 0: free
	held  int
	next  uint64
}

// NewDense is for blocks of the given number of tokens.
func NewDense(block int) *Dense {
	return &Dense{block: block, keys: make([]uint64, 1024), to: make([]uint32, 1024)}
}

// Apply changes the ids of r. After it there is one for every block, the last
// one perhaps not full.
func (d *Dense) Apply(r *Record) {
	if r.Private {
		r.IDs = r.IDs[:0]
	}
	for i, id := range r.IDs {
		r.IDs[i] = d.numberOf(id)
	}
	blocks := (r.Input + d.block - 1) / d.block
	for len(r.IDs) < blocks && (r.Private || r.Full) {
		r.IDs = append(r.IDs, d.next)
		d.next++
	}
	r.Full, r.Private = false, false
}

// Len is how many ids were given away.
func (d *Dense) Len() uint64 { return d.next }

func (d *Dense) numberOf(id uint64) uint64 {
	at := d.find(id)
	if d.to[at] != 0 {
		return uint64(d.to[at] - 1)
	}
	if 2*(d.held+1) > len(d.keys) {
		d.grow()
		at = d.find(id)
	}
	n := d.next
	d.next++
	d.keys[at], d.to[at] = id, uint32(n+1)
	d.held++
	return n
}

// find is the place of id, or the free one where it belongs.
func (d *Dense) find(id uint64) int {
	mask := len(d.keys) - 1
	for at := int(mixBits(id)) & mask; ; at = (at + 1) & mask {
		if d.to[at] == 0 || d.keys[at] == id {
			return at
		}
	}
}

func (d *Dense) grow() {
	keys, to := d.keys, d.to
	d.keys, d.to = make([]uint64, 2*len(keys)), make([]uint32, 2*len(to))
	for i, id := range keys {
		if to[i] != 0 {
			at := d.find(id)
			d.keys[at], d.to[at] = id, to[i]
		}
	}
}

// mixBits spreads the bits of x over all of the result.
func mixBits(x uint64) uint64 {
	hi, lo := bits.Mul64(x^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return hi ^ lo
}
