package router

import (
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// largestPart returns the largest part of a node that a worker holds, noPart if it holds
// none.
func (h *holdings) largestPart(p *page, n prompt.NodeID, w sim.WorkerID) int32 {
	if p.parted&bitOf(n) == 0 {
		return noPart
	}
	largest := int32(noPart)
	for i := p.parts[uint32(n)%pageNodes]; i != noPart; i = h.parts[i].next {
		if x := &h.parts[i]; x.worker == w && x.blocks > h.parts[largest].blocks {
			largest = i
		}
	}
	return largest
}

// partBlocks returns the number of blocks of the largest part of a worker, 0 if it has
// none.
func (h *holdings) partBlocks(p *page, n prompt.NodeID, w sim.WorkerID) int32 {
	return h.parts[h.largestPart(p, n, w)].blocks
}

// heldBlocks returns the number of blocks of a node that a worker holds.
func (h *holdings) heldBlocks(p *page, n prompt.NodeID, w sim.WorkerID) int32 {
	if p.isFull(w, bitOf(n)) {
		return h.tree.Size(n)
	}
	return h.partBlocks(p, n, w)
}

// splitTail returns the path of the nodes of which q has all blocks and, if its last full
// blocks are a part of a node, that node and their number.
func (h *holdings) splitTail(q *prompt.Prompt) (path []prompt.NodeID, n prompt.NodeID, blocks int32) {
	path = h.tree.Full(q)
	if len(path) == 0 || h.hasUnitNodes() {
		return path, prompt.None, 0
	}
	n = path[len(path)-1]
	if q.Blocks == h.tree.End(n) {
		return path, n, 0
	}
	return path[:len(path)-1], n, q.Blocks - h.tree.Start(n)
}

// addPart counts one more holder of so many blocks of a node.
func (h *holdings) addPart(p *page, n prompt.NodeID, w sim.WorkerID, blocks int32) {
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
	p.parted |= bitOf(n)
	p.live++
}

// dropPart counts one holder less; it reports false if there is none.
func (h *holdings) dropPart(p *page, n prompt.NodeID, w sim.WorkerID, blocks int32) bool {
	first := &p.parts[uint32(n)%pageNodes]
	for link := first; *link != noPart; link = &h.parts[*link].next {
		i := *link
		x := &h.parts[i]
		if x.worker != w || x.blocks != blocks {
			continue
		}
		if x.holders--; x.holders > 0 {
			return true
		}
		*link, x.next, h.vacant = x.next, h.vacant, i
		p.live--
		if *first == noPart {
			p.parted &^= bitOf(n)
		}
		return true
	}
	return false
}
