package trtllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/blockhash"
	"github.com/replay-llm/replay/sim/prompt"
)

// events records the KV events that the engine publishes, if the core captures events. No event is published for a
// block that leaves the tree because a prompt reuses it partially.
type events struct {
	cfg  *Config
	seqs []uint64 // sequence hashes of the blocks, by blockID
	out  []scheduler.KVEvent
	lost int // lost events since the latest pass
}

func (e *events) isOn() bool { return e.cfg.Capture == scheduler.CaptureEvents }

// publish moves the recorded events to p.
func (e *events) publish(p *scheduler.Pass) {
	e.dropOldest()
	p.EventsLost += e.lost
	e.lost = 0
	p.Events = append(p.Events, e.out...)
	clear(e.out)
	e.out = e.out[:0]
}

// dropOldest drops the oldest events if there are more than event_buffer_max_size. Each moved block counts as one
// event.
func (e *events) dropOldest() {
	if e.cfg.EventBuffer == 0 {
		return
	}
	over := -e.cfg.EventBuffer
	for i := range e.out {
		over += max(1, len(e.out[i].Moved))
	}
	e.lost += max(0, over)
	at := 0
	for ; over > 0; at++ {
		x := &e.out[at]
		if n := max(1, len(x.Moved)); n > over {
			x.Moved = x.Moved[over:]
			break
		} else {
			over -= n
		}
	}
	e.out = slices.Delete(e.out, 0, at)
}

// noteStored records that b, block i of a sequence, was added to the tree after parent. With began, the block is
// added to the event of the previous block.
func (e *events) noteStored(b, parent blockID, k content, i int, began bool) {
	if !e.isOn() {
		return
	}
	for int(b) >= len(e.seqs) {
		e.seqs = append(e.seqs, 0)
	}
	x := scheduler.KVEvent{}
	local := e.hashTokens(k, i)
	seq := local
	if parent != root {
		x.Parent, x.HasParent = e.seqs[parent], true
		seq = blockhash.Chain(x.Parent, local)
	}
	e.seqs[b] = seq
	stored := scheduler.KVBlock{Seq: seq, Tokens: local}
	if began {
		last := &e.out[len(e.out)-1]
		last.Stored = append(last.Stored, stored)
		return
	}
	x.Stored = []scheduler.KVBlock{stored}
	e.out = append(e.out, x)
}

// noteRemoved records that b leaves the tree.
func (e *events) noteRemoved(b blockID) {
	if !e.isOn() {
		return
	}
	if n := len(e.out); n > 0 && len(e.out[n-1].Removed) > 0 {
		e.out[n-1].Removed = append(e.out[n-1].Removed, e.seqs[b])
		return
	}
	e.out = append(e.out, scheduler.KVEvent{Removed: []uint64{e.seqs[b]}})
}

// noteMoved records that the cached block b was moved to another memory.
func (e *events) noteMoved(b blockID, to scheduler.Tier) {
	if !e.isOn() {
		return
	}
	if n := len(e.out); n > 0 && len(e.out[n-1].Moved) > 0 && e.out[n-1].Tier == to {
		e.out[n-1].Moved = append(e.out[n-1].Moved, e.seqs[b])
		return
	}
	e.out = append(e.out, scheduler.KVEvent{Moved: []uint64{e.seqs[b]}, Tier: to})
}

// hashTokens returns the hash of the tokens of block i of a sequence. Partial blocks and blocks with answer tokens
// have hashes that no prompt at a router has.
func (e *events) hashTokens(k content, i int) uint64 {
	tree := e.cfg.Tree
	switch {
	case int(k.prompt) < e.cfg.BlockTokens || k.ref >= ownAnswer:
		ref := uint64(k.ref)
		if tree.Hashed() && k.ref >= 0 && k.ref < ownPrompt { // the id of a node may be reused
			ref = tree.LocalHash(prompt.NodeID(k.ref), 0)
		}
		own := blockhash.Chain(ref, uint64(k.owner))
		return blockhash.Chain(blockhash.Chain(own, uint64(i)), uint64(k.prompt)<<32|uint64(k.answer))
	case k.ref >= ownPrompt:
		return tree.UniqueHash(prompt.Prompt{Seed: int32(k.ref ^ ownPrompt)}, i)
	}
	node := prompt.NodeID(k.ref)
	return tree.LocalHash(node, i-int(tree.Start(node)))
}
