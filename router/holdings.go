package router

import (
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// holdings keeps how many blocks of each prompt node the workers hold. A
// worker that holds a block of a node holds all blocks before it.
//
// Each node has a cell, the workers that hold it in full, and a list of the
// parts that workers hold. Nodes live on pages of neighbours. A page on which
// nothing is held is used again, so that memory follows what is held.
type holdings struct {
	tree   *prompt.Tree
	words  int // of a set of workers, a bit each
	sets   cellSets
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
	live  int32 // workers that hold a node in full, over its nodes, and parts
	nodes [pageNodes]holders
}

// holders are the workers that hold a node.
type holders struct {
	full  cell  // those that hold it in full
	parts int32 // the first part that is held
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

// grow makes room for worker ids below workers.
func (h *holdings) grow(workers int) {
	words := (workers + 63) / 64
	if words <= h.words {
		return
	}
	wide := newCellSets(words)
	for _, p := range h.pages {
		if p == nil {
			continue
		}
		for n := range p.nodes {
			if full := &p.nodes[n].full; *full != 0 {
				*full = wide.copyCell(&h.sets, *full)
			}
		}
	}
	h.sets = wide
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
	p := new(page)
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

// isFull reports whether w holds all of a node.
func (h *holdings) isFull(n prompt.NodeID, w sim.WorkerID) bool {
	p := h.pageOf(n)
	return p != nil && h.sets.has(p.nodes[uint32(n)%pageNodes].full, w)
}

// setFull makes w hold all of a node; it reports false if it did already.
func (h *holdings) setFull(n prompt.NodeID, w sim.WorkerID) bool {
	p := h.ensurePage(n)
	if !h.sets.add(&p.nodes[uint32(n)%pageNodes].full, w) {
		return false
	}
	p.live++
	return true
}

// clearFull ends what setFull began; it reports false if w does not hold all of
// the node.
func (h *holdings) clearFull(n prompt.NodeID, w sim.WorkerID) bool {
	p := h.pageOf(n)
	if p == nil || !h.sets.remove(&p.nodes[uint32(n)%pageNodes].full, w) {
		return false
	}
	p.live--
	h.releasePage(n, p)
	return true
}

// largestPart returns the largest part of a node that a worker holds, one of 0
// blocks if it holds none.
func (h *holdings) largestPart(n prompt.NodeID, w sim.WorkerID) *part {
	largest := &h.parts[noPart]
	if p := h.pageOf(n); p != nil {
		for i := p.nodes[uint32(n)%pageNodes].parts; i != noPart; i = h.parts[i].next {
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
	first := &p.nodes[uint32(n)%pageNodes].parts
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
	for link := &p.nodes[uint32(n)%pageNodes].parts; *link != noPart; link = &h.parts[*link].next {
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
	switch {
	case q.Prompt.Unique():
	case h.words == 1:
		h.matchWord(q, s)
	default:
		h.matchSets(q, s)
	}
}

// matchWord is match for so few workers that a word has a bit for each.
func (h *holdings) matchWord(q *sim.Request, s *scores) {
	active := ^uint64(0)
	depth := int32(0) // blocks that the active workers hold
	for _, n := range h.tree.Full(&q.Prompt) {
		p := h.pageOf(n)
		if p == nil {
			break
		}
		at := &p.nodes[uint32(n)%pageNodes]
		if at.parts != noPart {
			h.scoreParts(at.parts, active, depth, q.Prompt.Blocks, s)
		}
		full := uint64(at.full)
		if depth > 0 {
			s.raiseAll(0, active&^full, depth)
		}
		if active &= full; active == 0 {
			return
		}
		depth = h.tree.End(n)
	}
	if depth > 0 {
		s.raiseAll(0, active, min(depth, q.Prompt.Blocks))
	}
}

// scoreParts scores the active workers that hold a part of a node, the first of
// which is given, after depth blocks of a prompt of blocks.
func (h *holdings) scoreParts(first int32, active uint64, depth, blocks int32, s *scores) {
	for i := first; i != noPart; i = h.parts[i].next {
		if x := &h.parts[i]; active>>(uint32(x.worker)%64)&1 != 0 {
			s.raise(x.worker, min(depth+x.blocks, blocks))
		}
	}
}

// matchSets is match for any number of workers. Until a node is held by less than all workers, sharers is nil; then it
// has those that hold all nodes so far, until it is down to one, alone.
func (h *holdings) matchSets(q *sim.Request, s *scores) {
	var sharers []uint64
	alone, depth := None, int32(0)
	holds := func(w sim.WorkerID) bool {
		return alone == w || alone == None && (sharers == nil || sharers[uint32(w)/64]>>(uint32(w)%64)&1 != 0)
	}
	for _, n := range h.tree.Full(&q.Prompt) {
		p := h.pageOf(n)
		if p == nil {
			break
		}
		at := &p.nodes[uint32(n)%pageNodes]
		for i := at.parts; i != noPart; i = h.parts[i].next {
			if x := &h.parts[i]; holds(x.worker) {
				s.raise(x.worker, min(depth+x.blocks, q.Prompt.Blocks))
			}
		}
		c := at.full
		switch w := c.holder(); {
		case c == 0:
			h.scoreSharers(sharers, alone, depth, s)
			return
		case w != None && !holds(w), alone != None && !h.sets.has(c, alone):
			h.scoreSharers(sharers, alone, depth, s)
			return
		case alone != None:
		case w != None:
			h.scoreSharers(sharers, None, depth, s)
			alone = w
		case sharers == nil:
			sharers = h.sets.setOf(c)
		default:
			if sharers = h.narrow(sharers, h.sets.setOf(c), depth, s); sharers == nil {
				return
			}
		}
		depth = h.tree.End(n)
	}
	h.scoreSharers(sharers, alone, min(depth, q.Prompt.Blocks), s)
}

// narrow returns those of a set of workers that are in another, nil if none is. The workers that are not have depth
// blocks.
func (h *holdings) narrow(sharers, full []uint64, depth int32, s *scores) []uint64 {
	lost, left := uint64(0), uint64(0)
	for i, x := range sharers {
		lost |= x &^ full[i]
		left |= x & full[i]
	}
	if lost == 0 {
		return sharers
	}
	s.raiseSet(sharers, depth)
	if left == 0 {
		return nil
	}
	for i, x := range sharers {
		h.active[i] = x & full[i]
	}
	return h.active
}

// scoreSharers gives depth blocks to the workers that hold all of a walk.
func (h *holdings) scoreSharers(sharers []uint64, alone sim.WorkerID, depth int32, s *scores) {
	switch {
	case depth == 0:
	case alone != None:
		s.raise(alone, depth)
	default:
		s.raiseSet(sharers, depth)
	}
}
