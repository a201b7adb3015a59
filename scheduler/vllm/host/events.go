package host

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
)

// hasher returns the hashes of block i of a list for events. Keyers implement hasher if events are captured.
type hasher interface{ Hashes(i int) blocks.Hashes }

// noteHashes records the hashes of the blocks that j stores, for events.
func (c *Connector) noteHashes(j *Job) {
	if c.Memory.Watcher == nil {
		return
	}
	for _, s := range j.spans {
		for d := range s.Blocks {
			c.hashes[s.Key+Key(d)] = j.of.Keyer.(hasher).Hashes(int(s.Index + d))
		}
	}
}

// noteStored appends events for the stored blocks of j to the pass.
func (c *Connector) noteStored(j *Job) {
	if c.Memory.Watcher == nil {
		return
	}
	for _, s := range j.spans {
		for d := range s.Blocks {
			h := c.hashes[s.Key+Key(d)]
			c.Out.Events = append(c.Out.Events, scheduler.KVEvent{
				Parent: h.Parent, HasParent: h.Follows, Stored: []scheduler.KVBlock{h.KVBlock}, Tier: scheduler.HostPinned,
			})
		}
	}
}

// NoteEvicted appends an event for an evicted block to the pass.
func (c *Connector) NoteEvicted(key Key) {
	c.Out.Events = append(c.Out.Events, scheduler.KVEvent{Removed: []uint64{c.hashes[key].Seq}, Tier: scheduler.HostPinned})
	delete(c.hashes, key)
}
