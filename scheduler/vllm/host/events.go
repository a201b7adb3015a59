package host

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
)

// hasher returns the hashes of block i of a list in events. A Keyer is a hasher if events are captured.
type hasher interface{ Hashes(i int) blocks.Hashes }

// noteHashes keeps the names of the blocks that j stores, for events.
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

// noteStored writes down that the blocks of j are in host memory.
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

// NoteEvicted writes down that the block of a key is in host memory no more.
func (c *Connector) NoteEvicted(key Key) {
	c.Out.Events = append(c.Out.Events, scheduler.KVEvent{Removed: []uint64{c.hashes[key].Seq}, Tier: scheduler.HostPinned})
	delete(c.hashes, key)
}
