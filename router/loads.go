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

// splitTail returns the path of the nodes of which q has all blocks and, if its last full
// blocks are a part of a node, that node and their number.
func (l *treeLoads) splitTail(q *prompt.Prompt) (path []prompt.NodeID, n prompt.NodeID, blocks int32) {
	tree := l.holdings.tree
	path = tree.Full(q)
	if len(path) == 0 {
		return path, prompt.None, 0
	}
	n = path[len(path)-1]
	if q.Blocks == tree.End(n) {
		return path, n, 0
	}
	return path[:len(path)-1], n, q.Blocks - tree.Start(n)
}

// add makes the full blocks of q's prompt active on w.
func (l *treeLoads) add(w sim.WorkerID, q *sim.Request) {
	if q.Prompt.Unique() {
		l.blocks[w] += int64(q.Prompt.Blocks)
		return
	}
	h := l.holdings
	path, n, tail := l.splitTail(&q.Prompt)
	if tail > 0 {
		before := h.heldBlocks(n, w)
		h.addPart(n, w, tail)
		l.blocks[w] += int64(max(tail-before, 0))
		if before > 0 {
			return // the path to it is held already
		}
	}
	for i := len(path) - 1; i >= 0; i-- {
		n := path[i]
		if !h.setFull(n, w) {
			l.more.add(n, w)
			return
		}
		before := h.partBlocks(n, w)
		l.blocks[w] += int64(h.tree.Size(n) - before)
		if before > 0 {
			return
		}
	}
}

// remove ends what add began.
func (l *treeLoads) remove(w sim.WorkerID, q *sim.Request) {
	if q.Prompt.Unique() {
		l.blocks[w] -= int64(q.Prompt.Blocks)
		return
	}
	h := l.holdings
	path, n, tail := l.splitTail(&q.Prompt)
	if tail > 0 {
		if !h.dropPart(n, w, tail) {
			panic(fmt.Sprintf("router: worker %d has no running prompt that ends after %d blocks of node %d", w, tail, n))
		}
		after := h.heldBlocks(n, w)
		l.blocks[w] -= int64(max(tail-after, 0))
		if after > 0 {
			return
		}
	}
	for i := len(path) - 1; i >= 0; i-- {
		n := path[i]
		if l.more.drop(n, w) {
			return
		}
		if !h.clearFull(n, w) {
			panic(fmt.Sprintf("router: node %d is not active on worker %d", n, w))
		}
		after := h.partBlocks(n, w)
		l.blocks[w] -= int64(h.tree.Size(n) - after)
		if after > 0 {
			return
		}
	}
}
