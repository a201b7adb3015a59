package router

import (
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// holdings keeps how many blocks of each prompt node the workers hold. A
// worker that holds a block of a node holds all blocks before it.
//
// Each node has a set of the workers that hold it in full, and a list of the
// parts that workers hold. Nodes live on pages of neighbours. A page on which
// nothing is held is used again, so that memory follows what is held.
type holdings struct {
	tree   *prompt.Tree
	words  int     // of a set of workers, a bit each
	pages  []*page // by node / pageNodes; nil where nothing is held
	unused []*page
	parts  []part   // number 0 is none
	vacant int32    // parts to use again, linked by next
	active []uint64 // the workers that hold all of the walk in progress so far
}

// pageNodes is the number of nodes of a page.
const pageNodes = 64

// page holds the state of neighbouring nodes.
type page struct {
	live  int32    // workers that hold a node in full, over its nodes, and parts
	full  []uint64 // by node, then by worker / 64: the workers that hold it in full
	parts []int32  // by node: its first part; nil where nodes have but one block
}

// part is a number of leading blocks of a node, not all of them, that holders
// hold on a worker.
type part struct {
	worker  sim.WorkerID
	blocks  int32
	holders int32
	next    int32 // of the node; noPart at the end
}

const noPart = 0

func newHoldings(tree *prompt.Tree, workers int) *holdings {
	h := &holdings{
		tree:  tree,
		pages: make([]*page, (tree.Len()+pageNodes-1)/pageNodes),
		parts: make([]part, 1),
	}
	h.grow(workers)
	return h
}

// hasUnitNodes reports whether all nodes have one block.
func (h *holdings) hasUnitNodes() bool { return h.tree.PerNode() == 1 }

// grow makes room for worker ids below workers.
func (h *holdings) grow(workers int) {
	words := (workers + 63) / 64
	if words <= h.words {
		return
	}
	for _, p := range h.pages {
		if p == nil {
			continue
		}
		wide := make([]uint64, pageNodes*words)
		for n := range pageNodes {
			copy(wide[n*words:], p.full[n*h.words:][:h.words])
		}
		p.full = wide
	}
	h.unused = nil // too narrow
	h.words, h.active = words, make([]uint64, words)
}

// pageOf returns the page of a node, nil when nothing on it is held.
func (h *holdings) pageOf(n prompt.NodeID) *page {
	if i := int(n) / pageNodes; i < len(h.pages) {
		return h.pages[i]
	}
	return nil
}

// ensurePage returns the page of a node, made when there is none. The caller adds to it.
func (h *holdings) ensurePage(n prompt.NodeID) *page {
	if p := h.pageOf(n); p != nil {
		return p
	}
	i := int(n) / pageNodes
	h.pages = growSlice(h.pages, i+1)
	if k := len(h.unused); k > 0 {
		h.pages[i], h.unused = h.unused[k-1], h.unused[:k-1]
		return h.pages[i]
	}
	p := &page{full: make([]uint64, pageNodes*h.words)}
	if !h.hasUnitNodes() {
		p.parts = make([]int32, pageNodes)
	}
	h.pages[i] = p
	return p
}

// releasePage takes back the page of a node if nothing is held on it.
func (h *holdings) releasePage(n prompt.NodeID, p *page) {
	if p.live == 0 {
		h.pages[int(n)/pageNodes] = nil
		h.unused = append(h.unused, p)
	}
}

// fullOn returns the set of the workers that hold a node of a page in full.
func (h *holdings) fullOn(p *page, n prompt.NodeID) []uint64 {
	return p.full[int(uint32(n)%pageNodes)*h.words:][:h.words]
}

// isFull reports whether w holds all of a node.
func (h *holdings) isFull(n prompt.NodeID, w sim.WorkerID) bool {
	p := h.pageOf(n)
	return p != nil && h.fullOn(p, n)[uint32(w)/64]>>(uint32(w)%64)&1 != 0
}

// setFull makes w hold all of a node; it reports false if it did already.
func (h *holdings) setFull(n prompt.NodeID, w sim.WorkerID) bool {
	p := h.ensurePage(n)
	word, bit := &h.fullOn(p, n)[uint32(w)/64], uint64(1)<<(uint32(w)%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	p.live++
	return true
}

// clearFull ends what setFull began; it reports false if w does not hold all of
// the node.
func (h *holdings) clearFull(n prompt.NodeID, w sim.WorkerID) bool {
	if !h.isFull(n, w) {
		return false
	}
	p := h.pageOf(n)
	h.fullOn(p, n)[uint32(w)/64] &^= 1 << (uint32(w) % 64)
	p.live--
	h.releasePage(n, p)
	return true
}

// largestPart returns the largest part of a node that a worker holds, one of 0
// blocks if it holds none.
func (h *holdings) largestPart(n prompt.NodeID, w sim.WorkerID) *part {
	largest := &h.parts[noPart]
	if p := h.pageOf(n); p != nil && p.parts != nil {
		for i := p.parts[uint32(n)%pageNodes]; i != noPart; i = h.parts[i].next {
			if x := &h.parts[i]; x.worker == w && x.blocks > largest.blocks {
				largest = x
			}
		}
	}
	return largest
}

// heldBlocks returns the number of blocks of a node that a worker holds.
func (h *holdings) heldBlocks(n prompt.NodeID, w sim.WorkerID) int32 {
	if h.isFull(n, w) {
		return h.tree.Size(n)
	}
	return h.largestPart(n, w).blocks
}

// addPart counts one more holder of so many blocks of a node.
func (h *holdings) addPart(n prompt.NodeID, w sim.WorkerID, blocks int32) {
	p := h.ensurePage(n)
	first := &p.parts[uint32(n)%pageNodes]
	for i := *first; i != noPart; i = h.parts[i].next {
		if x := &h.parts[i]; x.worker == w && x.blocks == blocks {
			x.holders++
			return
		}
	}
	i := h.vacant
	if i == noPart {
		i = int32(len(h.parts))
		h.parts = append(h.parts, part{})
	} else {
		h.vacant = h.parts[i].next
	}
	h.parts[i] = part{worker: w, blocks: blocks, holders: 1, next: *first}
	*first = i
	p.live++
}

// dropPart counts one holder less; it reports false if there is none.
func (h *holdings) dropPart(n prompt.NodeID, w sim.WorkerID, blocks int32) bool {
	p := h.pageOf(n)
	if p == nil {
		return false
	}
	for link := &p.parts[uint32(n)%pageNodes]; *link != noPart; link = &h.parts[*link].next {
		i := *link
		x := &h.parts[i]
		if x.worker != w || x.blocks != blocks {
			continue
		}
		if x.holders--; x.holders == 0 {
			*link, x.next, h.vacant = x.next, h.vacant, i
			p.live--
			h.releasePage(n, p)
		}
		return true
	}
	return false
}

// match finds how many of the full blocks of q's prompt each worker holds from the
// first, and adds the workers that hold any to s.
func (h *holdings) match(q *sim.Request, s *scores) {
	if q.Prompt.Unique() {
		return
	}
	for i := range h.active {
		h.active[i] = ^uint64(0)
	}
	depth := int32(0) // blocks that the active workers hold
	for _, n := range h.tree.Full(&q.Prompt) {
		p := h.pageOf(n)
		if p == nil {
			break
		}
		if p.parts != nil {
			h.scoreParts(p.parts[uint32(n)%pageNodes], depth, q.Prompt.Blocks, s)
		}
		left := uint64(0)
		for i, full := range h.fullOn(p, n) {
			if depth > 0 {
				s.raiseAll(i, h.active[i]&^full, depth)
			}
			h.active[i] &= full
			left |= h.active[i]
		}
		if left == 0 {
			return
		}
		depth = h.tree.End(n)
	}
	if depth == 0 {
		return
	}
	for i, word := range h.active {
		s.raiseAll(i, word, min(depth, q.Prompt.Blocks))
	}
}

// scoreParts scores the active workers that hold a part of a node, the first of
// which is given, after depth blocks of a prompt of blocks.
func (h *holdings) scoreParts(first, depth, blocks int32, s *scores) {
	for i := first; i != noPart; i = h.parts[i].next {
		if x := &h.parts[i]; h.active[uint32(x.worker)/64]>>(uint32(x.worker)%64)&1 != 0 {
			s.raise(x.worker, min(depth+x.blocks, blocks))
		}
	}
}
