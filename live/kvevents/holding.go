package kvevents

import "github.com/replay-llm/replay/scheduler"

// Holding tracks the content of a cache from the events of its engine, for followers that identify blocks by name
// only. A block counts once for any number of copies. Tiers other than the device are ignored.
type Holding struct{ cached *cached }

// NewHolding returns a Holding of an empty cache.
func NewHolding() *Holding { return &Holding{newCached()} }

// Apply applies an event. Apply appends the removed blocks without a remaining copy to dst, and returns dst.
func (h *Holding) Apply(e *scheduler.KVEvent, dst []uint64) []uint64 {
	if e.Tier != scheduler.Device {
		return dst
	}
	removed := e.Removed
	stored := *e
	stored.Removed = nil
	h.cached.applyEvent(&stored)
	for _, hash := range removed {
		name := blockName{cache{e.Rank, e.Tier}, hash}
		before := len(h.cached.at)
		if h.cached.removeBlock(name); len(h.cached.at) < before {
			dst = append(dst, hash)
		}
	}
	return dst
}

// Run is a chain of blocks: each block is the parent of the next block.
type Run struct {
	Parent    uint64 // parent of the first block
	HasParent bool
	Blocks    []scheduler.KVBlock
}

// Runs returns the cached blocks in runs of at most atMost blocks. Each run follows the run of its parent. Blocks
// without a path to a root are omitted, because no request can find them.
func (h *Holding) Runs(atMost int) []Run {
	k := h.cached
	child, sibling := make([]int32, len(k.blocks)), make([]int32, len(k.blocks)) // indexes + 1; 0: none
	var roots []int32
	for i := len(k.blocks) - 1; i >= 0; i-- { // backwards, so that siblings keep their order
		b := &k.blocks[i]
		if b.gone {
			continue
		}
		if !b.hasParent {
			roots = append(roots, int32(i))
		} else if parent, ok := k.at[blockName{b.cache, b.parent}]; ok {
			sibling[i], child[parent] = child[parent], int32(i)+1
		}
	}
	var runs []Run
	for stack := roots; len(stack) > 0; {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		run := Run{Parent: k.blocks[i].parent, HasParent: k.blocks[i].hasParent}
		for i >= 0 {
			b := &k.blocks[i]
			if len(run.Blocks) == atMost {
				runs = append(runs, run)
				run = Run{Parent: b.parent, HasParent: true}
			}
			run.Blocks = append(run.Blocks, scheduler.KVBlock{Seq: b.hash, Tokens: b.tokens})
			first := child[i]
			i = first - 1
			if first == 0 {
				break
			}
			for c := sibling[first-1]; c != 0; c = sibling[c-1] {
				stack = append(stack, c-1)
			}
		}
		runs = append(runs, run)
	}
	return runs
}
