// Package events records which blocks become cached on the device of a vLLM engine, and which blocks are evicted.
package events

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Log records cached and evicted blocks if events are captured.
type Log struct {
	names *blocks.Names // nil if events are not captured
	tree  *prompt.Tree
	own   map[sim.RequestID]*ownBlocks // blocks by request, as long as lookups can find one of them
	Out   *scheduler.Pass              // the current pass
	last  sim.RequestID                // request of the block that was stored last
	// copies counts the blocks with the same content if names depend on the next token, too. Hashes in events do not
	// depend on the next token. If names do not depend on the next token, copies is nil.
	copies map[uint64]int32
}

// Request has the data that the names of a request's blocks depend on.
type Request struct {
	ID     sim.RequestID
	Path   []prompt.NodeID // content of the first full blocks
	Full   int             // number of full prompt blocks that events name by content
	Shared int             // number of full prompt blocks that other requests can find
}

// OwnKey returns the key of block i of a request if only that request can find it. ParseKey is the inverse.
func OwnKey(id sim.RequestID, i int) int64 { return -2 - (int64(id)<<32 | int64(i)) }

// ParseKey returns the request and the block index of a key from OwnKey.
func ParseKey(key int64) (id sim.RequestID, i int) {
	own := -2 - key
	return sim.RequestID(own >> 32), int(own & (1<<32 - 1))
}

// ownBlocks counts the blocks of a request that only this request can find.
type ownBlocks struct {
	named int // number of blocks that lookups can find
	gone  bool
}

// Init makes e record events if capture asks for them. ahead tells whether names of blocks depend on the next token,
// too.
func (e *Log) Init(capture scheduler.Capture, tree *prompt.Tree, ahead bool) {
	if capture == scheduler.CaptureEvents {
		*e = Log{names: blocks.NewNames(tree, true), tree: tree, own: make(map[sim.RequestID]*ownBlocks)}
		if ahead {
			e.copies = make(map[uint64]int32)
		}
	}
}

// BeginPass sets the pass to which events are appended.
func (e *Log) BeginPass(p *scheduler.Pass) { e.Out = p }

// AddRequest registers the tokens of r, so that events can name its blocks.
func (e *Log) AddRequest(r *sim.Request) {
	if e.names != nil {
		e.names.Add(r)
		e.own[r.ID] = new(ownBlocks)
	}
}

// RemoveRequest unregisters a request that has ended, or leaves that to the eviction of its last block.
func (e *Log) RemoveRequest(id sim.RequestID) {
	if o := e.own[id]; o != nil {
		o.gone = true
		e.dropUnnamed(id, o)
	}
}

// dropUnnamed unregisters a request that has ended if lookups find none of its private blocks.
func (e *Log) dropUnnamed(id sim.RequestID, o *ownBlocks) {
	if o.gone && o.named == 0 {
		delete(e.own, id)
		e.names.Remove(id)
	}
}

// NoteStored records that lookups can find block i of r. If isCopy is set, lookups find other blocks with the same
// content first.
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

// appendStored records a stored block. The block is appended to the previous event if that ends with the previous
// block of the same request.
func (e *Log) appendStored(of sim.RequestID, b blocks.Hashes, isCopy bool) {
	if e.names == nil {
		return
	}
	continues := false
	if n := len(e.Out.Events); n > 0 && b.Follows && e.last == of {
		last := &e.Out.Events[n-1]
		continues = last.Tier == scheduler.Device && len(last.Stored) > 0 && last.Stored[len(last.Stored)-1].Seq == b.Parent
		if continues && last.Copy == isCopy {
			last.Stored = append(last.Stored, b.KVBlock)
			return
		}
	}
	e.last = of
	e.Out.Events = append(e.Out.Events, scheduler.KVEvent{
		Parent: b.Parent, HasParent: b.Follows, Stored: []scheduler.KVBlock{b.KVBlock}, Copy: isCopy, Continues: continues,
	})
}

// NoteRemoved records that the block with that key is evicted. If isCopy is set, other blocks with the same content
// remain.
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

// placeHash returns the hash of the block with that key, which is a position in the prompt tree.
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

// HashesOf returns the hashes of block i of r for events.
func (e *Log) HashesOf(r Request, i int) (h blocks.Hashes) {
	if e.names == nil {
		return h
	}
	h.KVBlock = scheduler.KVBlock{Seq: e.sequenceHash(r, i)}
	if i < r.Full {
		h.Tokens = e.names.PathTokens(r.Path, i) // works for ended requests, too
	} else {
		h.Tokens = e.names.Tokens(r.ID, i)
	}
	if i > 0 {
		h.Parent, h.Follows = e.sequenceHash(r, i-1), true
	}
	return h
}

// sequenceHash returns the sequence hash of block i of r.
func (e *Log) sequenceHash(r Request, i int) uint64 {
	if i < r.Full {
		return e.names.Path(r.Path, i)
	}
	return e.names.Own(r.ID, i)
}
