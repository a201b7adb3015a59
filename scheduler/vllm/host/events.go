package host

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
)

// hasher returns what events say of block i of a list. A Keyer is one where events are captured.
type hasher interface{ Hashes(i int) blocks.Hashes }

// noteHashes keeps the names of the blocks that j stores, which have these indices in the list of the request, for events.
func (c *Connector) noteHashes(j *Job, indices []int32) {
	if c.Memory.Watcher == nil {
		return
	}
	for n, b := range j.Blocks {
		for int(b) >= len(c.hashes) {
			c.hashes = append(c.hashes, blocks.Hashes{})
		}
		c.hashes[b] = j.of.Keyer.(hasher).Hashes(int(indices[n]))
	}
}

// noteStored writes down that the blocks of j are in host memory.
func (c *Connector) noteStored(j *Job) {
	if c.Memory.Watcher == nil {
		return
	}
	for _, b := range j.Blocks {
		h := &c.hashes[b]
		c.Out.Events = append(c.Out.Events, scheduler.KVEvent{
			Parent: h.Parent, HasParent: h.Follows, Stored: []scheduler.KVBlock{h.KVBlock}, Tier: scheduler.HostPinned,
		})
	}
}

// NoteEvicted writes down that b is in host memory no more.
func (c *Connector) NoteEvicted(b ID) {
	c.Out.Events = append(c.Out.Events, scheduler.KVEvent{Removed: []uint64{c.hashes[b].Seq}, Tier: scheduler.HostPinned})
}
