package router

import (
	"github.com/replay-llm/replay/internal/probe"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// tally counts by node and worker. What is at 0 takes no room.
type tally struct {
	counts probe.Table[uint64, int32]
}

func newTally() tally { return tally{probe.New[uint64, int32](^uint64(0))} }

func tallyKey(node prompt.NodeID, w sim.WorkerID) uint64 {
	return uint64(uint32(node))<<32 | uint64(uint32(w))
}

// add counts one more.
func (t *tally) add(node prompt.NodeID, w sim.WorkerID) {
	n, _ := t.counts.Put(tallyKey(node, w))
	*n++
}

// drop counts one less; it reports false where the count is 0.
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
