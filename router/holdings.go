package router

import (
	"slices"

	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// holdings is the number of blocks of each prompt node that each worker holds. A worker that holds a block of a node
// holds all blocks before it.
//
// Each node has a cell, which is the set of workers that hold all of it, and a list of the parts that workers hold.
// Nodes are stored on pages of neighboring nodes. A page without holders is reused, so that memory is proportional to
// the held blocks.
type holdings struct {
	tree   *prompt.Tree
	words  int // words per set of workers, with a bit per worker
	sets   cellSets
	pages  []*page // by node / pageNodes; nil if no node is held
	unused []*page
	lists  [][]part // parts of nodes with several parts; index 0 is unused
	vacant []int32  // free lists
	active []uint64 // scratch of matchSets: workers that hold all nodes of the path so far
}

// pageNodes is the number of nodes per page.
const pageNodes = 64

// page is the state of neighboring nodes.
type page struct {
	live  int32 // number of full holders and parts, over all nodes
	nodes [pageNodes]holders
}

// holders is the workers that hold a node.
type holders struct {
	full cell // workers that hold all of the node
	// part is 1 + the worker of the only part, if a node has a single part with a single holder; blocks is its number
	// of blocks. With more parts, part is minus the index of a list. Without parts, part is 0.
	part, blocks int32
}

// part is the first blocks of a node, but not all of them, held on a worker by a number of holders.
type part struct {
	worker  sim.WorkerID
	blocks  int32
	holders int32
}

func newHoldings(tree *prompt.Tree, workers int) *holdings {
	h := &holdings{
		tree:  tree,
		pages: make([]*page, (tree.Len()+pageNodes-1)/pageNodes),
		lists: make([][]part, 1),
	}
	h.grow(workers)
	return h
}

// grow extends the sets to worker ids below workers.
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

// pageOf returns the page of a node, nil if no node of it is held.
func (h *holdings) pageOf(n prompt.NodeID) *page {
	if i := int(n) / pageNodes; i < len(h.pages) {
		return h.pages[i]
	}
	return nil
}

// ensurePage returns the page of a node, and creates it if necessary. The caller must add a holder.
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

// releasePage frees the page of a node if no node of it is held.
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

// setFull makes w hold all of a node. setFull reports false if w already held all of the node.
func (h *holdings) setFull(n prompt.NodeID, w sim.WorkerID) bool {
	p := h.ensurePage(n)
	if !h.sets.add(&p.nodes[uint32(n)%pageNodes].full, w) {
		return false
	}
	p.live++
	return true
}

// clearFull reverts setFull. clearFull reports false if w does not hold all of the node.
func (h *holdings) clearFull(n prompt.NodeID, w sim.WorkerID) bool {
	p := h.pageOf(n)
	if p == nil || !h.sets.remove(&p.nodes[uint32(n)%pageNodes].full, w) {
		return false
	}
	p.live--
	h.releasePage(n, p)
	return true
}

// partsOf returns the parts of a node. one is the memory for a single part.
func (h *holdings) partsOf(at *holders, one *[1]part) []part {
	switch {
	case at.part == 0:
		return nil
	case at.part < 0:
		return h.lists[-at.part]
	}
	one[0] = part{worker: sim.WorkerID(at.part - 1), blocks: at.blocks, holders: 1}
	return one[:]
}

// largestPart returns the number of blocks of the largest part of a node that a worker holds, 0 if it holds no part.
func (h *holdings) largestPart(n prompt.NodeID, w sim.WorkerID) (blocks int32) {
	if p := h.pageOf(n); p != nil {
		var one [1]part
		for _, x := range h.partsOf(&p.nodes[uint32(n)%pageNodes], &one) {
			if x.worker == w {
				blocks = max(blocks, x.blocks)
			}
		}
	}
	return blocks
}

// resizePart changes the number of blocks of the only part of a node that a worker holds. resizePart reports false if
// the worker holds no part.
func (h *holdings) resizePart(n prompt.NodeID, w sim.WorkerID, blocks int32) bool {
	p := h.pageOf(n)
	if p == nil {
		return false
	}
	at := &p.nodes[uint32(n)%pageNodes]
	if at.part > 0 {
		if sim.WorkerID(at.part-1) != w {
			return false
		}
		at.blocks = blocks
		return true
	}
	list := h.lists[-at.part]
	for i := range list {
		if list[i].worker == w {
			list[i].blocks = blocks
			return true
		}
	}
	return false
}

// heldBlocks returns the number of blocks of a node that a worker holds.
func (h *holdings) heldBlocks(n prompt.NodeID, w sim.WorkerID) int32 {
	if h.isFull(n, w) {
		return h.tree.Size(n)
	}
	return h.largestPart(n, w)
}

// addPart adds a holder of the first blocks of a node.
func (h *holdings) addPart(n prompt.NodeID, w sim.WorkerID, blocks int32) {
	p := h.ensurePage(n)
	at := &p.nodes[uint32(n)%pageNodes]
	if at.part == 0 {
		at.part, at.blocks = int32(w)+1, blocks
		p.live++
		return
	}
	h.makeList(at)
	list := h.lists[-at.part]
	for i := range list {
		if x := &list[i]; x.worker == w && x.blocks == blocks {
			x.holders++
			return
		}
	}
	h.lists[-at.part] = append(list, part{worker: w, blocks: blocks, holders: 1})
	p.live++
}

// makeList moves the only part of a node to a list.
func (h *holdings) makeList(at *holders) {
	if at.part < 0 {
		return
	}
	var one [1]part
	i := int32(len(h.lists))
	if k := len(h.vacant); k > 0 {
		i, h.vacant = h.vacant[k-1], h.vacant[:k-1]
	} else {
		h.lists = append(h.lists, nil)
	}
	h.lists[i] = append(h.lists[i], h.partsOf(at, &one)...)
	at.part, at.blocks = -i, 0
}

// dropPart removes a holder of the first blocks of a node. dropPart reports false if the worker is no holder.
func (h *holdings) dropPart(n prompt.NodeID, w sim.WorkerID, blocks int32) bool {
	p := h.pageOf(n)
	if p == nil {
		return false
	}
	at := &p.nodes[uint32(n)%pageNodes]
	if at.part >= 0 {
		if at.part != int32(w)+1 || at.blocks != blocks {
			return false
		}
		at.part, at.blocks = 0, 0
		p.live--
		h.releasePage(n, p)
		return true
	}
	list := h.lists[-at.part]
	i := slices.IndexFunc(list, func(x part) bool { return x.worker == w && x.blocks == blocks })
	if i < 0 {
		return false
	}
	if list[i].holders--; list[i].holders == 0 {
		list[i] = list[len(list)-1]
		h.lists[-at.part] = list[:len(list)-1]
		p.live--
	}
	h.endList(at)
	h.releasePage(n, p)
	return true
}

// endList frees the list of a node if it has at most one part with one holder.
func (h *holdings) endList(at *holders) {
	i := -at.part
	switch list := h.lists[i]; {
	case len(list) == 0:
		at.part = 0
	case len(list) == 1 && list[0].holders == 1:
		at.part, at.blocks = int32(list[0].worker)+1, list[0].blocks
	default:
		return
	}
	h.lists[i], h.vacant = h.lists[i][:0], append(h.vacant, i)
}

// match adds to s, for each worker, the number of leading full blocks of q's prompt that it holds.
func (h *holdings) match(q *sim.Request, s *scores) {
	switch {
	case q.Prompt.Unique():
	case h.words == 1:
		h.matchWord(q, s)
	default:
		h.matchSets(q, s)
	}
}

// matchWord is match for at most 64 workers, as the bits of a word.
func (h *holdings) matchWord(q *sim.Request, s *scores) {
	var one [1]part
	active := ^uint64(0)
	depth := int32(0) // number of blocks that the active workers hold
	for _, n := range h.tree.Full(&q.Prompt) {
		p := h.pageOf(n)
		if p == nil {
			break
		}
		at := &p.nodes[uint32(n)%pageNodes]
		for _, x := range h.partsOf(at, &one) {
			if active>>(uint32(x.worker)%64)&1 != 0 {
				s.raise(x.worker, min(depth+x.blocks, q.Prompt.Blocks))
			}
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

// matchSets is match for any number of workers. sharers is the set of workers that hold all nodes so far, nil if all
// workers do. alone is the only such worker, if there is just one.
func (h *holdings) matchSets(q *sim.Request, s *scores) {
	var one [1]part
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
		for _, x := range h.partsOf(at, &one) {
			if holds(x.worker) {
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

// narrow returns the intersection of two sets of workers, nil if it is empty. Workers that are only in sharers get a
// score of depth blocks.
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

// scoreSharers scores depth blocks for the workers that hold all nodes of a path.
func (h *holdings) scoreSharers(sharers []uint64, alone sim.WorkerID, depth int32, s *scores) {
	switch {
	case depth == 0:
	case alone != None:
		s.raise(alone, depth)
	default:
		s.raiseSet(sharers, depth)
	}
}
