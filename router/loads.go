package router

import (
	"fmt"

	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// treeLoads counts the distinct prompt blocks of the running requests of each
// worker.
//
// A running prompt makes its path active, and paths share what they have in
// common. A node is held once for each active child on the worker and for each
// prompt that ends there, so that a prompt touches only the nodes that it makes
// active and the one it branches off from.
type treeLoads struct {
	holdings *holdings
	more     tally   // full holders of a node on a worker beyond the first
	blocks   []int64 // by worker: active blocks
}

func newTreeLoads(tree *prompt.Tree, workers int) *treeLoads {
	l := &treeLoads{holdings: newHoldings(tree, workers), more: newTally()}
	l.grow(workers)
	return l
}

func (l *treeLoads) grow(workers int) {
	l.holdings.grow(workers)
	l.blocks = growSlice(l.blocks, workers)
}

func (l *treeLoads) byWorker() []int64 { return l.blocks }

// match finds how many of the prompt's leading blocks are active on each worker.
func (l *treeLoads) match(q *sim.Request, s *scores) {
	if !q.Prompt.Unique() {
		l.holdings.match(&q.Prompt, s)
	}
}

// add makes the full blocks of q's prompt active on w.
func (l *treeLoads) add(w sim.WorkerID, q *sim.Request) {
	if q.Prompt.Unique() {
		l.blocks[w] += int64(q.Prompt.Blocks)
		return
	}
	h := l.holdings
	path, n, tail := h.splitTail(&q.Prompt)
	if tail > 0 {
		p := h.ensurePage(n)
		before := h.heldBlocks(p, n, w)
		h.addPart(p, n, w, tail)
		l.blocks[w] += int64(max(tail-before, 0))
		if before > 0 {
			return // the path to it is held already
		}
	}
	l.holdPath(w, path)
}

// holdPath counts one more holder of the last node of a path, making the nodes
// active that are not. Of those, only the first may be held in part.
func (l *treeLoads) holdPath(w sim.WorkerID, path []prompt.NodeID) {
	h := l.holdings
	for len(path) > 0 {
		n := path[len(path)-1]
		nodes, before := lastStretch(path)
		p := h.ensurePage(n)
		known := nodes & p.full[w]
		if known != 0 {
			known = highestBit(known)
			nodes &= -(known << 1)
		}
		if nodes != 0 {
			part := h.partBlocks(p, lowestNode(n, nodes), w)
			p.setFull(w, nodes)
			l.blocks[w] += h.countBlocks(n, nodes) - int64(part)
			if part > 0 {
				return
			}
		}
		if known != 0 {
			p.branched |= known
			l.more.add(lowestNode(n, known), w)
			return
		}
		path = before
	}
}

// remove ends what add began.
func (l *treeLoads) remove(w sim.WorkerID, q *sim.Request) {
	if q.Prompt.Unique() {
		l.blocks[w] -= int64(q.Prompt.Blocks)
		return
	}
	h := l.holdings
	path, n, tail := h.splitTail(&q.Prompt)
	if tail > 0 {
		p := h.pageOf(n)
		if p == nil || !h.dropPart(p, n, w, tail) {
			panic(fmt.Sprintf("router: worker %d has no running prompt that ends after %d blocks of node %d", w, tail, n))
		}
		after := h.heldBlocks(p, n, w)
		l.blocks[w] -= int64(max(tail-after, 0))
		if after > 0 {
			return
		}
		h.releasePage(n, p)
	}
	l.releasePath(w, path)
}

// releasePath counts one holder less of the last node of a path.
func (l *treeLoads) releasePath(w sim.WorkerID, path []prompt.NodeID) {
	h := l.holdings
	for len(path) > 0 {
		n := path[len(path)-1]
		nodes, before := lastStretch(path)
		p := h.pageOf(n)
		if p == nil || !p.isFull(w, highestBit(nodes)) {
			panic(fmt.Sprintf("router: node %d is not active on worker %d", n, w))
		}
		done := l.releaseStretch(p, n, w, nodes)
		h.releasePage(n, p)
		if done {
			return
		}
		path = before
	}
}

// releaseStretch takes the nodes of a stretch from w, last to first, until one is held
// by others too; it reports whether one is. The stretch ends with n.
func (l *treeLoads) releaseStretch(p *page, n prompt.NodeID, w sim.WorkerID, nodes uint64) bool {
	h := l.holdings
	for nodes != 0 {
		gone := nodes // all, or down to the first node that others may hold
		if shared := nodes & (p.branched | p.parted); shared != 0 {
			last := highestBit(shared)
			gone &= -last
			m := lowestNode(n, last)
			if p.branched&last != 0 && l.more.drop(m, w) {
				l.markInactive(p, n, w, gone&^last)
				return true
			}
			if part := h.partBlocks(p, m, w); part > 0 {
				l.markInactive(p, n, w, gone)
				l.blocks[w] += int64(part)
				return true
			}
		}
		l.markInactive(p, n, w, gone)
		nodes &^= gone
	}
	return false
}

// markInactive takes whole nodes, which follow each other on the page of n, from w.
func (l *treeLoads) markInactive(p *page, n prompt.NodeID, w sim.WorkerID, nodes uint64) {
	if nodes != 0 {
		p.clearFull(w, nodes)
		l.blocks[w] -= l.holdings.countBlocks(n, nodes)
	}
}
