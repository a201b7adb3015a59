package router

import (
	"math/bits"

	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// match finds how many of the prompt's full blocks each worker holds from the
// first, and adds the workers that hold any to s.
func (h *holdings) match(q *prompt.Prompt, s *scores) {
	if q.Blocks == 0 {
		return
	}
	for i := range h.active {
		h.active[i] = ^uint64(0)
	}
	path := h.tree.Full(q)
	depth := int32(0) // blocks that the active workers hold
	for len(path) > 0 {
		p := h.pageOf(path[0])
		if p == nil {
			break
		}
		nodes, rest := firstStretch(path)
		k := walk{h: h, page: p, first: path[0], nodes: nodes, depth: depth, blocks: q.Blocks}
		if p.parted&bitOf(path[0]) != 0 {
			k.scoreOutsiders(s)
		}
		if !k.scoreStretch(s) {
			return
		}
		depth, path = h.tree.End(path[len(path)-len(rest)-1]), rest
	}
	if depth == 0 {
		return
	}
	for i, word := range h.active {
		s.raiseAll(i, word, min(depth, q.Blocks))
	}
}

// walk is one stretch of a prompt's path, which comes after depth blocks of a
// prompt of blocks.
type walk struct {
	h             *holdings
	page          *page
	first         prompt.NodeID // of nodes
	nodes         uint64
	depth, blocks int32
}

// scoreStretch scores the active workers for which the path ends in the stretch; they
// are active no longer. It reports whether any are left.
func (k *walk) scoreStretch(s *scores) bool {
	left := uint64(0)
	nodes, full := k.nodes, k.page.full
	for i, word := range k.h.active {
		in := word & k.page.who[i]
		if gone := word &^ in; gone != 0 && k.depth > 0 {
			s.raiseAll(i, gone, k.depth)
		}
		for set := in; set != 0; set &= set - 1 {
			w := i*64 + bits.TrailingZeros64(set)
			if missing := nodes &^ full[w]; missing != 0 {
				in &^= set & -set
				k.scoreEnd(sim.WorkerID(w), missing&-missing, s)
			}
		}
		k.h.active[i] = in
		left |= in
	}
	return left != 0
}

// scoreEnd scores a worker for which a node of the stretch is the first that it does
// not hold in full.
func (k *walk) scoreEnd(w sim.WorkerID, missing uint64, s *scores) {
	n := lowestNode(k.first, missing)
	blocks := k.h.tree.Start(n)
	if k.page.parted&missing != 0 {
		blocks += k.h.partBlocks(k.page, n, w)
	}
	if blocks > 0 {
		s.raise(w, min(blocks, k.blocks))
	}
}

// scoreOutsiders scores active workers that hold a part of the first node of the
// stretch and nothing on its page in full.
func (k *walk) scoreOutsiders(s *scores) {
	for i := k.page.parts[uint32(k.first)%pageNodes]; i != noPart; i = k.h.parts[i].next {
		x := &k.h.parts[i]
		word, worker := uint32(x.worker)/64, uint64(1)<<(uint32(x.worker)%64)
		if k.h.active[word]&^k.page.who[word]&worker != 0 {
			s.raise(x.worker, min(k.depth+x.blocks, k.blocks))
		}
	}
}
