package router

import (
	"math/bits"

	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// holdings keeps how many blocks of each prompt node the workers hold. A
// worker that holds a block of a node holds all blocks before it.
//
// Nodes live on pages of neighbours, and a path is made of few stretches of
// nodes on one page: a word per page and worker has a bit for each that the worker
// holds in full, and a stretch costs a few operations on words. A list of parts
// per node has the others. A page on which nothing is held is used again,
// so that memory follows what is held.
type holdings struct {
	tree    *prompt.Tree
	workers int
	pages   []*page // by node / pageNodes; nil where nothing is held
	unused  []*page
	fresh   []page   // never used yet
	parts   []part   // number 0 is none
	vacant  int32    // parts to use again, linked by next
	active  []uint64 // of the walk in progress: by worker / 64
}

// pageNodes is the number of nodes of a page: a bit of a word each.
const pageNodes = 64

// page holds the state of neighbouring nodes. Sets of nodes are words.
type page struct {
	live     int32    // workers that hold nodes in full, and parts
	parted   uint64   // nodes of which parts are held
	branched uint64   // nodes for whoever follows branches; empty on a page made or used again
	who      []uint64 // by worker / 64: the workers that hold nodes in full
	full     []uint64 // by worker: the nodes it holds in full
	parts    []int32  // by node: its first part; nil where nodes have but one block
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

// countBlocks returns the number of blocks of a set of nodes of one path, which follow
// each other there; first is some node on their page.
func (h *holdings) countBlocks(first prompt.NodeID, nodes uint64) int64 {
	return int64(h.tree.End(lowestNode(first, highestBit(nodes))) - h.tree.Start(lowestNode(first, nodes)))
}

// grow makes room for worker ids below workers.
func (h *holdings) grow(workers int) {
	if workers <= h.workers {
		return
	}
	h.workers = max(workers, 2*h.workers)
	words := (h.workers + 63) / 64
	for _, p := range h.pages {
		if p != nil {
			p.full = append(make([]uint64, 0, h.workers), p.full...)[:h.workers]
			p.who = append(make([]uint64, 0, words), p.who...)[:words]
		}
	}
	h.unused, h.fresh = nil, nil // too narrow
	h.active = make([]uint64, words)
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
	if i >= len(h.pages) {
		wide := make([]*page, max(i+1, 2*len(h.pages)))
		copy(wide, h.pages)
		h.pages = wide
	}
	h.pages[i] = h.emptyPage()
	return h.pages[i]
}

// emptyPage returns a page without anything on it.
func (h *holdings) emptyPage() *page {
	if k := len(h.unused); k > 0 {
		p := h.unused[k-1]
		h.unused = h.unused[:k-1]
		return p
	}
	if len(h.fresh) == 0 {
		h.allocPages()
	}
	p := &h.fresh[0]
	h.fresh = h.fresh[1:]
	return p
}

// allocPages makes a batch of pages.
func (h *holdings) allocPages() {
	const batch = 16
	h.fresh = make([]page, batch)
	words := len(h.active)
	sets := make([]uint64, batch*(words+h.workers))
	for i := range h.fresh {
		p := &h.fresh[i]
		p.who, sets = sets[:words:words], sets[words:]
		p.full, sets = sets[:h.workers:h.workers], sets[h.workers:]
	}
	if h.hasUnitNodes() {
		return
	}
	parts := make([]int32, batch*pageNodes)
	for i := range h.fresh {
		h.fresh[i].parts = parts[i*pageNodes:][:pageNodes:pageNodes]
	}
}

// releasePage takes back the page of a node if nothing is held on it.
func (h *holdings) releasePage(n prompt.NodeID, p *page) {
	if p.live == 0 {
		p.branched = 0
		h.pages[int(n)/pageNodes] = nil
		h.unused = append(h.unused, p)
	}
}

// bitOf returns the set of one node on its page.
func bitOf(n prompt.NodeID) uint64 { return 1 << (uint32(n) % pageNodes) }

// highestBit returns the last node of a set that is not empty, alone.
func highestBit(nodes uint64) uint64 { return 1 << (63 - bits.LeadingZeros64(nodes)) }

// lowestNode returns the first node of a set on the page of n.
func lowestNode(n prompt.NodeID, nodes uint64) prompt.NodeID {
	return n&^(pageNodes-1) | prompt.NodeID(bits.TrailingZeros64(nodes))
}

// firstStretch returns the set of the first nodes of a path that are on the page of the
// very first, and the rest of the path.
func firstStretch(path []prompt.NodeID) (nodes uint64, rest []prompt.NodeID) {
	number := path[0] / pageNodes
	for i, n := range path {
		if n/pageNodes != number {
			return nodes, path[i:]
		}
		nodes |= bitOf(n)
	}
	return nodes, nil
}

// lastStretch returns the set of the last nodes of a path that are on the page of
// the very last, and the path before them.
func lastStretch(path []prompt.NodeID) (nodes uint64, before []prompt.NodeID) {
	number := path[len(path)-1] / pageNodes
	for i := len(path) - 1; i >= 0; i-- {
		if path[i]/pageNodes != number {
			return nodes, path[:i+1]
		}
		nodes |= bitOf(path[i])
	}
	return nodes, nil
}

// isFull reports whether w holds in full all nodes of a set.
func (p *page) isFull(w sim.WorkerID, nodes uint64) bool { return nodes&^p.full[w] == 0 }

// setFull notes that w holds a set of nodes in full.
func (p *page) setFull(w sim.WorkerID, nodes uint64) {
	if p.full[w] == 0 {
		p.who[uint32(w)/64] |= 1 << (uint32(w) % 64)
		p.live++
	}
	p.full[w] |= nodes
}

// clearFull notes that w does not hold a set of nodes in full, of which it held
// some.
func (p *page) clearFull(w sim.WorkerID, nodes uint64) {
	if p.full[w] &^= nodes; p.full[w] == 0 {
		p.who[uint32(w)/64] &^= 1 << (uint32(w) % 64)
		p.live--
	}
}
