package router

import (
	"math/bits"

	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// tally counts by node and worker. What is at 0 takes no room.
//
// It is a hash table with linear probing that closes the gap where a count
// leaves, so that it stays as fast as it began.
type tally struct {
	counts []count // a power of two of them, at least twice as many as used
	used   int
}

// count is n for a node and a worker, 0 where the place is free.
type count struct {
	node   prompt.NodeID
	worker sim.WorkerID
	n      int32
}

const minTally = 64

// home is where the search for a count begins.
func (t *tally) home(node prompt.NodeID, w sim.WorkerID) int {
	key := uint64(uint32(node))<<32 | uint64(uint32(w))
	return int(key * 0x9e3779b97f4a7c15 >> (65 - bits.Len(uint(len(t.counts)))))
}

// find is the place of a count, or the free one where it would be.
func (t *tally) find(node prompt.NodeID, w sim.WorkerID) int {
	mask := len(t.counts) - 1
	i := t.home(node, w)
	for c := &t.counts[i]; c.n > 0 && (c.node != node || c.worker != w); c = &t.counts[i] {
		i = (i + 1) & mask
	}
	return i
}

// add counts one more.
func (t *tally) add(node prompt.NodeID, w sim.WorkerID) {
	if 2*(t.used+1) > len(t.counts) {
		t.grow()
	}
	c := &t.counts[t.find(node, w)]
	if c.n == 0 {
		c.node, c.worker = node, w
		t.used++
	}
	c.n++
}

// drop counts one less; it reports false where the count is 0.
func (t *tally) drop(node prompt.NodeID, w sim.WorkerID) bool {
	if t.used == 0 {
		return false
	}
	i := t.find(node, w)
	c := &t.counts[i]
	if c.n == 0 {
		return false
	}
	if c.n--; c.n == 0 {
		t.used--
		t.close(i)
	}
	return true
}

// close moves counts into the gap at i that would not be found behind it.
func (t *tally) close(i int) {
	mask := len(t.counts) - 1
	for k := (i + 1) & mask; t.counts[k].n > 0; k = (k + 1) & mask {
		c := t.counts[k]
		if way := (k - t.home(c.node, c.worker)) & mask; way >= (k-i)&mask {
			t.counts[i], t.counts[k].n = c, 0
			i = k
		}
	}
}

func (t *tally) grow() {
	old := t.counts
	t.counts = make([]count, max(minTally, 2*len(old)))
	for _, c := range old {
		if c.n > 0 {
			t.counts[t.find(c.node, c.worker)] = c
		}
	}
}
