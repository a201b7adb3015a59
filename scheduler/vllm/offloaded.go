package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm/residency"
)

// offloaded is a device with vLLM's OffloadingConnector behind it.
type offloaded struct {
	*device
	blocks.DeviceOnly
	conn *connector
}

func newOffloaded(c *Core) *offloaded {
	d := newDevice(c)
	if c.cfg.Capture == scheduler.CaptureResidency {
		d.nodes = residency.New(c.cfg.Tree)
	}
	c.conn = newConnector(c, d)
	return &offloaded{device: d, conn: c.conn}
}

// hasRoom reports whether a number of free blocks is enough for r to have the first blocks of its list. Of one that was loaded it
// holds some already.
func (o *offloaded) hasRoom(r *request, hits, chunk, whole, free int) bool {
	if r.blocks > 0 {
		return max(chunk, whole)-r.blocks <= free
	}
	return o.device.hasRoom(r, hits, chunk, whole, free)
}

// holdHits makes r a holder of its first blocks, which are cached, unless it holds them already.
func (o *offloaded) holdHits(r *request, hits int) {
	if r.blocks == 0 {
		o.device.holdHits(r, hits)
	}
}

// takeBlocks takes what r lacks of the first blocks of its list.
func (o *offloaded) takeBlocks(r *request, blocks int) (enough bool) {
	had := r.blocks
	enough = o.device.takeBlocks(r, blocks)
	if o.conn.watching {
		for _, b := range r.held[had:] {
			o.conn.taken = append(o.conn.taken, takenBlock{r.slot, b})
		}
	}
	return enough
}

// nameBlocks makes the first blocks of r ones that can be found.
func (o *offloaded) nameBlocks(r *request, blocks int) {
	shared := min(blocks, r.shared)
	if o.told {
		shared = 0
	}
	for r.named < shared {
		key := o.keyOf(r, r.named)
		row, added := o.placesOf(r, r.named, shared), int32(0)
		n := len(row)
		for d, b := range r.held[r.named : r.named+n] {
			if row[d] == 0 {
				row[d], o.all[b].key = b+1, key+int64(d)
				added++
			} else if !o.setSharedKey(b, key+int64(d)) {
				added++
			}
		}
		if added > 0 && o.nodes != nil {
			o.nodes.Note(o.core.events.Out, key+int64(n)-int64(added), added)
		}
		r.named += n
	}
	o.device.nameBlocks(r, blocks)
}

// Release gives back all blocks of s, last to first, when no pass under way writes to them.
func (o *offloaded) Release(s slot) { o.conn.releaseBlocks(&o.core.requests[s], true) }

// stripBlocks takes all blocks from r, which remembers those that can be found.
func (o *offloaded) stripBlocks(r *request) {
	r.former = append(r.former[:0], r.held[:r.named]...)
	o.conn.releaseBlocks(r, false)
}

// Forget drops what is kept for s, which holds nothing and is gone.
func (o *offloaded) Forget(s slot) {
	o.device.Forget(s)
	o.conn.endRequest(s)
}

// FromHost returns how many of the first tokens of s, all cached, were loaded for it.
func (o *offloaded) FromHost(s slot, tokens int) int {
	f := o.core.requests[s].offload
	from := f.From << o.core.shift
	n := max(0, min(f.To<<o.core.shift, tokens)-from)
	f.From, f.To = 0, 0
	return n
}

// Fetching is the number of requests that wait outside of the line.
func (o *offloaded) Fetching() int { return len(o.conn.aside) }

// Busy reports whether something is being copied.
func (o *offloaded) Busy() bool { return o.conn.Pending > 0 }

// Check holds the accounts of both memories against each other.
func (o *offloaded) Check() {
	holders := o.noHolders()
	count := func(all []blockID) {
		for _, b := range all {
			holders[b]++
		}
	}
	for _, s := range o.conn.aside {
		count(o.core.requests[s].held)
	}
	for _, f := range o.conn.fenced {
		count(f.blocks)
	}
	for _, j := range o.conn.orphans {
		count(j.Held)
	}
	if s := o.conn.simple; s != nil {
		s.EachHeld(count)
	}
	o.checkHolders(holders)
	o.conn.Memory.Check()
}
