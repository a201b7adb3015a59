package router

import (
	"fmt"

	"github.com/replay-llm/replay/internal/probe"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// treeLoads counts the distinct prompt blocks of the running requests of each worker.
//
// A running prompt makes the nodes of its path active, and paths share common nodes. A node has a count of its active
// children on the worker and of the prompts that end there. A prompt therefore changes only new nodes and the node
// where it branches off.
type treeLoads struct {
	*holdings
	more   tally   // number of further full holders of a node on a worker
	blocks []int64 // by worker: active blocks
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

// splitTail returns the path of the nodes of which q has all blocks. If its last full blocks are a part of a node, it
// also returns that node and the number of these blocks.
func (l *treeLoads) splitTail(q *prompt.Prompt) (path []prompt.NodeID, n prompt.NodeID, blocks int32) {
	path = l.tree.Full(q)
	if len(path) == 0 {
		return path, prompt.None, 0
	}
	n = path[len(path)-1]
	if q.Blocks == l.tree.End(n) {
		return path, n, 0
	}
	return path[:len(path)-1], n, q.Blocks - l.tree.Start(n)
}

// add makes the full blocks of q's prompt active on w.
func (l *treeLoads) add(w sim.WorkerID, q *sim.Request) {
	if q.Prompt.Unique() {
		l.blocks[w] += int64(q.Prompt.Blocks)
		return
	}
	path, n, tail := l.splitTail(&q.Prompt)
	if tail > 0 {
		before := l.heldBlocks(n, w)
		l.addPart(n, w, tail)
		l.blocks[w] += int64(max(tail-before, 0))
		if before > 0 {
			return // the path of the node is held already
		}
	}
	for i := len(path) - 1; i >= 0; i-- {
		n := path[i]
		if !l.setFull(n, w) {
			l.more.add(n, w)
			return
		}
		before := l.largestPart(n, w)
		l.blocks[w] += int64(l.tree.Size(n) - before)
		if before > 0 {
			return
		}
	}
}

// remove reverts add.
func (l *treeLoads) remove(w sim.WorkerID, q *sim.Request) {
	if q.Prompt.Unique() {
		l.blocks[w] -= int64(q.Prompt.Blocks)
		return
	}
	path, n, tail := l.splitTail(&q.Prompt)
	if tail > 0 {
		if !l.dropPart(n, w, tail) {
			panic(fmt.Sprintf("router: worker %d has no running prompt that ends after %d blocks of node %d", w, tail, n))
		}
		after := l.heldBlocks(n, w)
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
		if !l.clearFull(n, w) {
			panic(fmt.Sprintf("router: node %d is not active on worker %d", n, w))
		}
		after := l.largestPart(n, w)
		l.blocks[w] -= int64(l.tree.Size(n) - after)
		if after > 0 {
			return
		}
	}
}

// tally counts by node and worker. A count of 0 takes no memory.
type tally struct {
	counts probe.Table[uint64, int32]
}

func newTally() tally { return tally{probe.New[uint64, int32](^uint64(0))} }

func tallyKey(node prompt.NodeID, w sim.WorkerID) uint64 {
	return uint64(uint32(node))<<32 | uint64(uint32(w))
}

// add increments a count.
func (t *tally) add(node prompt.NodeID, w sim.WorkerID) {
	n, _ := t.counts.Put(tallyKey(node, w))
	*n++
}

// drop decrements a count. drop reports false if the count is 0.
func (t *tally) drop(node prompt.NodeID, w sim.WorkerID) bool {
	k := tallyKey(node, w)
	n := t.counts.Get(k)
	if *n == 0 {
		return false
	}
	if *n--; *n == 0 {
		t.counts.Delete(k)
	}
	return true
}
