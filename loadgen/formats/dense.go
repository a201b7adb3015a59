package formats

import "github.com/replay-llm/replay/internal/probe"

// Dense gives ids new numbers from 0 up, in the order in which they appear, and
// ids to blocks that have none. It keeps 32 to 64 bytes per id.
type Dense struct {
	block int
	to    probe.Table[uint64, uint32] // by id but for lastID: the new number and 1
	last  uint32                      // that of lastID; 0: none
	next  uint64
}

// lastID is the key of free places in the table.
const lastID = 1<<64 - 1

// NewDense is for blocks of the given number of tokens.
func NewDense(block int) *Dense {
	return &Dense{block: block, to: probe.New[uint64, uint32](lastID)}
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
	to := d.place(id)
	if *to == 0 {
		d.next++
		*to = uint32(d.next)
	}
	return uint64(*to - 1)
}

// place is where the number of id and 1 is kept; it is 0 when there is none yet.
func (d *Dense) place(id uint64) *uint32 {
	if id == lastID {
		return &d.last
	}
	to, _ := d.to.Put(id)
	return to
}
