// Package events writes down what becomes cached on the device of a vLLM engine and what is evicted.
package events

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Log records cached and evicted blocks if events are captured.
type Log struct {
	names *blocks.Names // nil if no events are captured
	tree  *prompt.Tree
	own   map[sim.RequestID]*ownBlocks // by request, as long as one of them can be found
	Out   *scheduler.Pass              // the current pass
	last  sim.RequestID                // of the block that was stored last
	// copies counts the blocks of the same content where the token after a block names it, too.
	// Events do not name them. It is nil elsewhere.
	copies map[uint64]int32
}

// Request is what names the blocks of a request.
type Request struct {
	ID     sim.RequestID
	Path   []prompt.NodeID // of the first full blocks by content
	Full   int             // full prompt blocks named by content in events
	Shared int             // of these, the blocks that other requests can find
}

// OwnKey names block i of a request, which only that can find. ParseKey is its inverse.
func OwnKey(id sim.RequestID, i int) int64 { return -2 - (int64(id)<<32 | int64(i)) }

// ParseKey returns the request and the index of a block with such a key.
func ParseKey(key int64) (id sim.RequestID, i int) {
	own := -2 - key
	return sim.RequestID(own >> 32), int(own & (1<<32 - 1))
}

// ownBlocks counts the blocks that only one request can name.
type ownBlocks struct {
	named int // blocks that can be found
	gone  bool
}

// Init makes e write events where they are captured. ahead is whether the token after a block names it, too.
func (e *Log) Init(capture scheduler.Capture, tree *prompt.Tree, ahead bool) {
	if capture == scheduler.CaptureEvents {
		*e = Log{names: blocks.NewNames(tree, true), tree: tree, own: make(map[sim.RequestID]*ownBlocks)}
		if ahead {
			e.copies = make(map[uint64]int32)
		}
	}
}

// BeginPass makes p the pass that gets events.
func (e *Log) BeginPass(p *scheduler.Pass) { e.Out = p }

// AddRequest makes the blocks of r ones that can be named.
func (e *Log) AddRequest(r *sim.Request) {
	if e.names != nil {
		e.names.Add(r)
		e.own[r.ID] = new(ownBlocks)
	}
}

// RemoveRequest forgets a request, or leaves it to the eviction of its last
// block.
func (e *Log) RemoveRequest(id sim.RequestID) {
	if o := e.own[id]; o != nil {
		o.gone = true
		e.dropUnnamed(id, o)
	}
}

// dropUnnamed forgets a request that is gone, if no own block can be found.
func (e *Log) dropUnnamed(id sim.RequestID, o *ownBlocks) {
	if o.gone && o.named == 0 {
		delete(e.own, id)
		e.names.Remove(id)
	}
}

// NoteStored writes down that block i of r can be found: before other blocks with the same content or, as a copy, after them.
func (e *Log) NoteStored(r Request, i int, isCopy bool) {
	if e.names == nil {
		return
	}
	if i >= r.Shared {
		e.own[r.ID].named++
	}
	h := e.HashesOf(r, i)
	if e.copies != nil {
		e.copies[h.Seq]++
		isCopy = e.copies[h.Seq] > 1
	}
	e.appendStored(r.ID, h, isCopy)
}

// appendStored writes down a block of a request that can be found: in the event before it, if that ends
// with the block before and is of the same request.
func (e *Log) appendStored(of sim.RequestID, b blocks.Hashes, isCopy bool) {
	if e.names == nil {
		return
	}
	goesOn := false
	if n := len(e.Out.Events); n > 0 && b.Follows && e.last == of {
		last := &e.Out.Events[n-1]
		goesOn = last.Tier == scheduler.Device && len(last.Stored) > 0 && last.Stored[len(last.Stored)-1].Seq == b.Parent
		if goesOn && last.Copy == isCopy {
			last.Stored = append(last.Stored, b.KVBlock)
			return
		}
	}
	e.last = of
	e.Out.Events = append(e.Out.Events, scheduler.KVEvent{
		Parent: b.Parent, HasParent: b.Follows, Stored: []scheduler.KVBlock{b.KVBlock}, Copy: isCopy, Continues: goesOn,
	})
}

// NoteRemoved writes down that a block of that key is evicted; as a copy, other blocks with the same content are left.
func (e *Log) NoteRemoved(key int64, isCopy bool) {
	if e.names == nil {
		return
	}
	var hash uint64
	if key >= 0 {
		hash = e.placeHash(key)
	} else {
		id, i := ParseKey(key)
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
	if n := len(e.Out.Events); n > 0 {
		if last := &e.Out.Events[n-1]; last.Tier == scheduler.Device && last.Copy == isCopy && len(last.Removed) > 0 {
			last.Removed = append(last.Removed, hash)
			return
		}
	}
	e.Out.Events = append(e.Out.Events, scheduler.KVEvent{Removed: []uint64{hash}, Copy: isCopy})
}

// placeHash returns the name of a block of that key, a place in the tree.
func (e *Log) placeHash(key int64) uint64 {
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

// HashesOf returns the hashes of block i of r in events.
func (e *Log) HashesOf(r Request, i int) (h blocks.Hashes) {
	if e.names == nil {
		return h
	}
	h.KVBlock = scheduler.KVBlock{Seq: e.sequenceHash(r, i)}
	if i < r.Full {
		h.Tokens = e.names.PathTokens(r.Path, i) // also of a request that has ended
	} else {
		h.Tokens = e.names.Tokens(r.ID, i)
	}
	if i > 0 {
		h.Parent, h.Follows = e.sequenceHash(r, i-1), true
	}
	return h
}

// sequenceHash returns the name of block i of r.
func (e *Log) sequenceHash(r Request, i int) uint64 {
	if i < r.Full {
		return e.names.Path(r.Path, i)
	}
	return e.names.Own(r.ID, i)
}
