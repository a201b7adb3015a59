package formats

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/probe"
	"github.com/replay-llm/replay/loadgen"
)

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

// idMapHead is the first line of a file of numbers; the number of the next new
// id follows.
const idMapHead = "hash_id,number,next="

// WriteMap writes which id has which number, so that ReadIDMap can go on with it.
func (d *Dense) WriteMap(w io.Writer) error {
	type pair struct {
		id     uint64
		number uint32
	}
	var all []pair
	if d.last != 0 {
		all = append(all, pair{lastID, d.last - 1})
	}
	for id, n := range d.to.All() {
		all = append(all, pair{id, *n - 1})
	}
	slices.SortFunc(all, func(a, b pair) int { return int(a.number) - int(b.number) })
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s%d\n", idMapHead, d.next)
	for _, p := range all {
		fmt.Fprintf(out, "%d,%d\n", p.id, p.number)
	}
	return out.Flush()
}

// ReadIDMap reads what WriteMap wrote, for blocks of the given number of tokens;
// name stands for the file in messages.
func ReadIDMap(r io.Reader, name string, block int) (*Dense, error) {
	d := NewDense(block)
	lines := bufio.NewScanner(r)
	n := 0
	fail := func() error {
		return &loadgen.SyntaxError{Name: name, Line: n, Msg: fmt.Sprintf("%q, want the numbers of ids that an earlier run wrote", excerpt.Cut(lines.Text()))}
	}
	for lines.Scan() {
		if n++; n == 1 {
			rest, ok := strings.CutPrefix(lines.Text(), idMapHead)
			next, err := strconv.ParseUint(rest, 10, 32)
			if !ok || err != nil {
				return nil, fail()
			}
			d.next = next
			continue
		}
		left, right, _ := strings.Cut(lines.Text(), ",")
		id, err1 := strconv.ParseUint(left, 10, 64)
		number, err2 := strconv.ParseUint(right, 10, 32)
		if err1 != nil || err2 != nil || number >= d.next {
			return nil, fail()
		}
		*d.place(id) = uint32(number + 1)
	}
	return d, lines.Err()
}
