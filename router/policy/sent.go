package policy

import (
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// sent is the blocks that a router assumes to be cached because it has sent them. For each worker, sent is the blocks
// that were sent last, limited by number or by time.
type sent struct {
	tree     *prompt.Tree
	capacity int64    // blocks per worker; 0: unlimited
	keep     sim.Time // time after which blocks are forgotten; 0: unlimited
	workers  []recent
}

// recent is the blocks sent to a worker, as pieces of prompts. A piece is the blocks of a node, or of an unshared
// prompt. Pieces are in a ring that starts at piece 0, the most recently used first.
type recent struct {
	at     map[prompt.NodeID]int32
	pieces []piece
	vacant []int32
	used   int64 // number of blocks in all pieces
}

// piece is the first blocks of a node, or of an unshared prompt.
type piece struct {
	node          prompt.NodeID // None: an unshared prompt
	blocks        int32
	left          int32 // number of blocks that are not forgotten; first blocks are forgotten first
	used          sim.Time
	before, after int32
}

func makeSent(tree *prompt.Tree, capacity int64, keep sim.Time) *sent {
	return &sent{tree: tree, capacity: capacity, keep: keep}
}

// on returns the blocks sent to w.
func (s *sent) on(w sim.WorkerID) *recent {
	for int(w) >= len(s.workers) {
		s.workers = append(s.workers, recent{at: map[prompt.NodeID]int32{}, pieces: make([]piece, 1)})
	}
	return &s.workers[w]
}

// match returns the number of leading blocks of a prompt that are assumed to be cached on w.
func (s *sent) match(now sim.Time, w sim.WorkerID, p *prompt.Prompt) int32 {
	r, found := s.on(w), int32(0)
	if p.Unique() {
		return 0
	}
	for _, n := range s.tree.Full(p) {
		i, ok := r.at[n]
		if !ok {
			break
		}
		x := &r.pieces[i]
		if x.left < x.blocks || s.keep > 0 && now >= x.used+s.keep {
			break
		}
		size := s.sizeOf(n, p.Blocks)
		found += min(x.blocks, size)
		if x.blocks < size {
			break
		}
	}
	return found
}

// sizeOf returns the number of blocks of a node within the first blocks of a prompt.
func (s *sent) sizeOf(n prompt.NodeID, blocks int32) int32 {
	return min(s.tree.End(n), blocks) - s.tree.Start(n)
}

// add records that the first blocks of a prompt are sent to w.
func (s *sent) add(now sim.Time, w sim.WorkerID, p *prompt.Prompt, blocks int32) {
	r := s.on(w)
	if p.Unique() {
		if s.capacity > 0 && blocks > 0 {
			r.use(now, prompt.None, blocks)
		}
	} else {
		for _, n := range s.tree.Full(p) {
			size := s.sizeOf(n, blocks)
			if size <= 0 {
				break
			}
			r.use(now, n, size)
		}
	}
	s.forgetOld(now, r)
	s.forgetExcess(r)
}

// forgetOld forgets the blocks that were sent more than s.keep ago.
func (s *sent) forgetOld(now sim.Time, r *recent) {
	if s.keep == 0 {
		return
	}
	for i := r.pieces[0].before; i != 0 && now >= r.pieces[i].used+s.keep; i = r.pieces[0].before {
		r.forget(i, r.pieces[i].left)
	}
}

// forgetExcess forgets the least recent blocks in excess of the capacity. Within a piece, forgetExcess forgets the
// first blocks first.
func (s *sent) forgetExcess(r *recent) {
	if s.capacity == 0 {
		return
	}
	for r.used > s.capacity {
		i := r.pieces[0].before
		r.forget(i, int32(min(int64(r.pieces[i].left), r.used-s.capacity)))
	}
}

// use moves the first blocks of a node to the front.
func (r *recent) use(now sim.Time, n prompt.NodeID, blocks int32) {
	i, ok := r.at[n]
	switch {
	case ok:
		r.unlink(i)
	case len(r.vacant) > 0:
		i, r.vacant = r.vacant[len(r.vacant)-1], r.vacant[:len(r.vacant)-1]
	default:
		i = int32(len(r.pieces))
		r.pieces = append(r.pieces, piece{})
	}
	x := &r.pieces[i]
	blocks = max(blocks, x.blocks)
	r.used += int64(blocks - x.left)
	*x = piece{node: n, blocks: blocks, left: blocks, used: now, after: r.pieces[0].after}
	r.pieces[x.after].before, r.pieces[0].after = i, i
	if n != prompt.None {
		r.at[n] = i
	}
}

func (r *recent) unlink(i int32) {
	x := &r.pieces[i]
	r.pieces[x.before].after, r.pieces[x.after].before = x.after, x.before
}

// forget forgets the first remaining blocks of a piece.
func (r *recent) forget(i, blocks int32) {
	x := &r.pieces[i]
	r.used -= int64(blocks)
	if x.left -= blocks; x.left > 0 {
		return
	}
	r.unlink(i)
	if x.node != prompt.None {
		delete(r.at, x.node)
	}
	*x = piece{}
	r.vacant = append(r.vacant, i)
}
