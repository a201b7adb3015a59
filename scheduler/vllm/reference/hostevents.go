package reference

import "github.com/replay-llm/replay/scheduler"

// blockHashes is what events say of a block, kept for when its request is gone.
type blockHashes struct {
	scheduler.KVBlock
	parent  uint64 // sequence hash of the block before it
	follows bool   // there is one
}

// hashes is what events say of block i of r's list.
func (k *capture) hashes(c *Core, r *request, i int) (h blockHashes) {
	if k.level != scheduler.CaptureEvents {
		return h
	}
	h.Seq, h.Tokens = k.seq(c, r, i), k.local(c, r, i)
	if i > 0 {
		h.parent, h.follows = k.seq(c, r, i-1), true
	}
	return h
}

// left notes that b was evicted from the GPU.
func (k *capture) left(b *block) {
	if k.level == scheduler.CaptureEvents {
		k.gone = append(k.gone, b.hashes.Seq)
	}
}

// came notes that b was swapped in; those that follow each other are published
// together.
func (k *capture) came(b *block) {
	if k.level != scheduler.CaptureEvents {
		return
	}
	if len(k.event.Stored) == 0 {
		k.event.Parent, k.event.HasParent = b.hashes.parent, b.hashes.follows
	}
	k.event.Stored = append(k.event.Stored, b.hashes.KVBlock)
}

// reachedHost publishes that b is in host memory.
func (k *capture) reachedHost(b *block) {
	if k.level != scheduler.CaptureEvents {
		return
	}
	k.out.Events = append(k.out.Events, scheduler.KVEvent{
		Parent: b.hashes.parent, HasParent: b.hashes.follows,
		Stored: []scheduler.KVBlock{b.hashes.KVBlock},
		Tier:   scheduler.HostPinned,
	})
}

// leftHost publishes that b was evicted from host memory.
func (k *capture) leftHost(b *block) {
	if k.level == scheduler.CaptureEvents {
		k.out.Events = append(k.out.Events, scheduler.KVEvent{Removed: []uint64{b.hashes.Seq}, Tier: scheduler.HostPinned})
	}
}
