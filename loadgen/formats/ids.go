package formats

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/probe"
	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// Trie assigns numbers to paths of edges. Equal paths have equal numbers. The root has the number 0, and other nodes
// start at 1.
type Trie Numbers[step]

const TrieRoot = uint32(0)

type step struct {
	parent uint32
	piece  Piece
}

// Piece is the content of a block or of a part of a block.
type Piece struct {
	ID           uint64
	From, Tokens int32
	Own          bool // ID is not an id of the file
}

// Child returns the child of parent for a piece. Child creates the child if it does not exist.
func (t Trie) Child(parent uint32, e Piece) uint32 {
	return uint32(Numbers[step](t).Of(step{parent, e}) + 1)
}

// Reblock changes the block size of prompts. Two prompts share a new block if they shared all its tokens and all
// previous tokens.
type Reblock struct {
	from, to int // block sizes in tokens
	common   int // size in tokens of the parts that both block sizes consist of
	paths    Trie
	ids      Numbers[uint32] // by node of the last part of a block
	parts    []uint64
}

// NewReblock returns a Reblock for two block sizes > 0.
func NewReblock(from, to int) *Reblock {
	a, b := from, to
	for b > 0 {
		a, b = b, a%b
	}
	return &Reblock{from: from, to: to, common: a, paths: make(Trie), ids: make(Numbers[uint32])}
}

// Apply replaces the ids of r.
func (b *Reblock) Apply(r *Record) {
	if b.from == b.to || r.Private {
		return
	}
	split := uint64(b.from / b.common)
	b.parts = b.parts[:0]
	for i, id := range r.IDs {
		for k := range split {
			if i*b.from+int(k)*b.common >= r.Input {
				break // the last block is not full
			}
			b.parts = append(b.parts, id*split+k)
		}
	}
	if b.common == b.to {
		r.IDs = append(r.IDs[:0], b.parts...)
		return
	}
	group := b.to / b.common
	r.IDs = r.IDs[:0]
	node := TrieRoot
	for i, p := range b.parts {
		node = b.paths.Child(node, Piece{ID: p})
		if (i+1)%group == 0 || i+1 == len(b.parts) {
			r.IDs = append(r.IDs, b.ids.Of(node))
		}
	}
	// An omitted incomplete block, which no other prompt shares, is now in the last group.
	if r.Full && len(b.parts)%group != 0 {
		r.IDs = r.IDs[:len(r.IDs)-1]
	}
}

// Stretch multiplies the lengths of prompts by a factor. If two prompts shared a part of their tokens, the new
// prompts share the same part.
type Stretch struct {
	block  int
	factor float64
	paths  Trie
	ids    Numbers[stretched]
	nodes  []uint32
}

// stretched is a new block: its index, and the old prefix from which it was created.
type stretched struct {
	node  uint32
	place int32
}

// NewStretch returns a Stretch for prompts with blocks of the given size. factor must be > 0.
func NewStretch(block int, factor float64) *Stretch {
	return &Stretch{block: block, factor: factor, paths: make(Trie), ids: make(Numbers[stretched])}
}

// Scale returns a length multiplied by the factor, at least 1 unless tokens is 0.
func (s *Stretch) Scale(tokens int) int {
	if tokens == 0 {
		return 0
	}
	return int(min(max(float64(tokens)*s.factor+0.5, 1), scan.MaxTokens))
}

// Apply changes the length and the ids of r.
func (s *Stretch) Apply(r *Record) {
	old := r.Input
	r.Input = s.Scale(r.Input)
	if r.Private || old == 0 {
		return
	}
	s.nodes = s.nodes[:0]
	node := TrieRoot
	for _, id := range r.IDs {
		node = s.paths.Child(node, Piece{ID: id})
		s.nodes = append(s.nodes, node)
	}
	blocks := (r.Input + s.block - 1) / s.block
	r.IDs = r.IDs[:0]
	for j := range blocks {
		last := float64((j+1)*s.block-1) / s.factor // the last token of the block, in tokens of the old prompt
		at := min(int(last)/s.block, (old-1)/s.block)
		if at >= len(s.nodes) { // the block is in the part that no other prompt shares
			r.Full = true
			if j < r.Input/s.block {
				r.IDs = append(r.IDs, s.fresh(j))
			}
			continue
		}
		r.IDs = append(r.IDs, s.ids.Of(stretched{s.nodes[at], int32(j)}))
	}
	if len(r.IDs)*s.block >= r.Input {
		r.Full = false
	}
}

// fresh returns an unused id.
func (s *Stretch) fresh(place int) uint64 {
	node := s.paths.Child(TrieRoot, Piece{ID: uint64(len(s.ids)), Own: true})
	return s.ids.Of(stretched{node, int32(place)})
}

// Dense replaces ids with numbers from 0 in order of appearance. Dense adds ids for blocks without ids. Dense uses 32
// to 64 bytes of memory per id.
type Dense struct {
	block int
	to    probe.Table[uint64, uint32] // new number + 1 by id, except for lastID
	last  uint32                      // new number + 1 of lastID; 0: none
	next  uint64
}

// lastID is the key of free slots in the table.
const lastID = 1<<64 - 1

// NewDense returns a Dense for blocks of the given number of tokens.
func NewDense(block int) *Dense {
	return &Dense{block: block, to: probe.New[uint64, uint32](lastID)}
}

// Apply replaces the ids of r. The new list has an id for every block, including an incomplete last block.
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

func (d *Dense) numberOf(id uint64) uint64 {
	to := d.place(id)
	if *to == 0 {
		d.next++
		*to = uint32(d.next)
	}
	return uint64(*to - 1)
}

// place returns a pointer to the new number of id + 1. The number is 0 for a new id.
func (d *Dense) place(id uint64) *uint32 {
	if id == lastID {
		return &d.last
	}
	to, _ := d.to.Put(id)
	return to
}

// idMapHead is the start of the first line of a file of numbers. The next unused number follows idMapHead.
const idMapHead = "hash_id,number,next="

// WriteMap writes the number of each id. ReadIDMap reads this file.
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
	stable.Sort(all, func(a, b pair) int { return int(a.number) - int(b.number) })
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s%d\n", idMapHead, d.next)
	for _, p := range all {
		fmt.Fprintf(out, "%d,%d\n", p.id, p.number)
	}
	return out.Flush()
}

// ReadIDMap reads a file of WriteMap for blocks of the given number of tokens. name is the name of the file in
// errors.
func ReadIDMap(r io.Reader, name string, block int) (*Dense, error) {
	d := NewDense(block)
	lines := bufio.NewScanner(r)
	n := 0
	fail := func() error {
		return &loadgen.SyntaxError{Name: name, Line: n, Msg: fmt.Sprintf("%q, expected the numbers of ids that an earlier run wrote", excerpt.Cut(lines.Text()))}
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
