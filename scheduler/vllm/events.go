package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// events writes down what becomes cached and what is evicted, when anybody
// looks.
type events struct {
	names *blocks.Names // nil when nobody looks
	tree  *prompt.Tree
	own   map[sim.RequestID]*ownBlocks // by request, as long as one of them can be found
	out   *scheduler.Pass
	last  sim.RequestID // whose block was stored last
	// copies counts the blocks of the same content where the token after a block names it, too,
	// of which nothing is told; nil elsewhere.
	copies map[uint64]int32
}

// ownBlocks counts the blocks that only one request can name.
type ownBlocks struct {
	named int // those that can be found
	gone  bool
}

func (e *events) init(cfg *Config) {
	if cfg.Capture == scheduler.CaptureEvents {
		*e = events{names: blocks.NewNames(cfg.Tree, true), tree: cfg.Tree, own: make(map[sim.RequestID]*ownBlocks)}
		if cfg.HashesAhead() {
			e.copies = make(map[uint64]int32)
		}
	}
}

func (e *events) beginPass(p *scheduler.Pass) { e.out = p }

// addRequest makes the blocks of r ones that can be named.
func (e *events) addRequest(r *sim.Request) {
	if e.names != nil {
		e.names.Add(r)
		e.own[r.ID] = new(ownBlocks)
	}
}

// removeRequest forgets a request, or leaves it to the eviction of its last
// block.
func (e *events) removeRequest(id sim.RequestID) {
	if o := e.own[id]; o != nil {
		o.gone = true
		e.dropUnnamed(id, o)
	}
}

// dropUnnamed forgets a request none of whose own blocks will be named again.
func (e *events) dropUnnamed(id sim.RequestID, o *ownBlocks) {
	if o.gone && o.named == 0 {
		delete(e.own, id)
		e.names.Remove(id)
	}
}

// noteStored writes down that block i of r can be found, in place of others that
// hold the same or, as a copy, after them.
func (e *events) noteStored(r *request, i int, isCopy bool) {
	if e.names == nil {
		return
	}
	if i >= r.shared {
		e.own[r.id].named++
	}
	h := e.hashesOf(r, i)
	if e.copies != nil {
		e.copies[h.Seq]++
		isCopy = e.copies[h.Seq] > 1
	}
	e.appendStored(r.id, h, isCopy)
}

// appendStored writes down a block that can be found, of a request. It goes on where the
// event before it ends, if that is the same request's.
func (e *events) appendStored(of sim.RequestID, b blocks.Hashes, isCopy bool) {
	if e.names == nil {
		return
	}
	goesOn := false
	if n := len(e.out.Events); n > 0 && b.Follows && e.last == of {
		last := &e.out.Events[n-1]
		goesOn = last.Tier == scheduler.Device && len(last.Stored) > 0 && last.Stored[len(last.Stored)-1].Seq == b.Parent
		if goesOn && last.Copy == isCopy {
			last.Stored = append(last.Stored, b.KVBlock)
			return
		}
	}
	e.last = of
	e.out.Events = append(e.out.Events, scheduler.KVEvent{
		Parent: b.Parent, HasParent: b.Follows, Stored: []scheduler.KVBlock{b.KVBlock}, Copy: isCopy, Continues: goesOn,
	})
}

// noteRemoved writes down that a block of that key is evicted; as a copy, others
// that hold the same are left.
func (e *events) noteRemoved(key int64, isCopy bool) {
	if e.names == nil {
		return
	}
	var hash uint64
	if key >= 0 {
		hash = e.placeHash(key)
	} else {
		id, i := parseKey(key)
		hash = e.names.Own(id, i)
		if e.copies != nil {
			hash = e.names.Content(id, i)
		}
		o := e.own[id]
		o.named--
		e.dropUnnamed(id, o)
	}
	if e.copies != nil {
		if e.copies[hash]--; e.copies[hash] == 0 {
			delete(e.copies, hash)
		}
		isCopy = e.copies[hash] > 0
	}
	if n := len(e.out.Events); n > 0 {
		if last := &e.out.Events[n-1]; last.Tier == scheduler.Device && last.Copy == isCopy && len(last.Removed) > 0 {
			last.Removed = append(last.Removed, hash)
			return
		}
	}
	e.out.Events = append(e.out.Events, scheduler.KVEvent{Removed: []uint64{hash}, Copy: isCopy})
}

// placeHash returns the name of a block of that key, a place in the tree.
func (e *events) placeHash(key int64) uint64 {
	per := int64(e.tree.PerNode())
	node, i := prompt.NodeID(key/per), int(key%per)
	switch {
	case e.copies == nil:
		return e.tree.SequenceHash(node, i)
	case i > 0:
		return e.tree.SequenceHash(node, i-1)
	}
	return e.tree.SequenceHash(e.tree.Parent(node), int(per)-1)
}

// hashesOf returns what events say of block i of r.
func (e *events) hashesOf(r *request, i int) (h blocks.Hashes) {
	if e.names == nil {
		return h
	}
	h.KVBlock = scheduler.KVBlock{Seq: e.sequenceHash(r, i)}
	if i < r.full {
		h.Tokens = e.names.PathTokens(r.path, i) // also of a request that has ended
	} else {
		h.Tokens = e.names.Tokens(r.id, i)
	}
	if i > 0 {
		h.Parent, h.Follows = e.sequenceHash(r, i-1), true
	}
	return h
}

// sequenceHash returns the name of block i of r.
func (e *events) sequenceHash(r *request, i int) uint64 {
	if i < r.full {
		return e.names.Path(r.path, i)
	}
	return e.names.Own(r.id, i)
}
