package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm/residency"
)

// stock is a pool of KV blocks for use with a connector.
type stock interface {
	pool
	// releaseBlocks releases all blocks of r, last to first.
	releaseBlocks(r *request)
	// releaseFence releases the blocks of f, last to first.
	releaseFence(f *fence)
	// checkWith panics if the counters do not agree; the connector of c may hold further blocks.
	checkWith(c *connector)
}

// offloaded is a pool of KV blocks with a connector. offloaded uses single blocks if a connector copies them or
// events are captured, and segments with pulls alone.
type offloaded struct {
	stock
	conn *connector
}

func newOffloaded(c *Core) *offloaded {
	var all stock
	var single *device
	if c.cfg.Offload.Given() || c.cfg.Capture == scheduler.CaptureEvents {
		if single = newDevice(c); c.cfg.Capture == scheduler.CaptureResidency {
			single.nodes = residency.New(c.cfg.Tree)
		}
		all = singles{device: single}
	} else {
		all = newSegments(c)
	}
	c.conn = newConnector(c, all, single)
	return &offloaded{stock: all, conn: c.conn}
}

// singles is a device for use with a connector.
type singles struct {
	*device
	blocks.DeviceOnly
}

// nameBlocks names the first blocks of r, so that they can be found.
func (p singles) nameBlocks(r *request, blocks int) {
	shared := min(blocks, r.shared)
	if p.told {
		shared = 0
	}
	for r.named < shared {
		key := p.keyOf(r, r.named)
		row, added := p.placesOf(r, r.named, shared), int32(0)
		n := len(row)
		for d, b := range r.held[r.named : r.named+n] {
			if row[d] == 0 {
				row[d], p.all[b].key = b+1, key+int64(d)
				added++
			} else if !p.setSharedKey(b, key+int64(d)) {
				added++
			}
		}
		if added > 0 && p.nodes != nil {
			p.nodes.Note(p.core.events.Out, key+int64(n)-int64(added), added)
		}
		r.named += n
	}
	p.device.nameBlocks(r, blocks)
}

// hasRoom reports whether free blocks are enough for the first blocks of r. If r was loaded, r already holds some of
// the blocks.
func (o *offloaded) hasRoom(r *request, hits, chunk, whole, free int) bool {
	if r.blocks > 0 {
		return max(chunk, whole)-r.blocks <= free
	}
	return o.stock.hasRoom(r, hits, chunk, whole, free)
}

// holdHits adds r as a holder of its first hits blocks, which are cached, unless r holds them already.
func (o *offloaded) holdHits(r *request, hits int) {
	if r.blocks == 0 {
		o.stock.holdHits(r, hits)
	}
}

// takeBlocks allocates the missing blocks of the first blocks of r.
func (o *offloaded) takeBlocks(r *request, blocks int) (enough bool) {
	had := r.blocks
	enough = o.stock.takeBlocks(r, blocks)
	if o.conn.watching && o.conn.device != nil {
		for _, b := range r.held[had:] {
			o.conn.taken = append(o.conn.taken, takenBlock{r.slot, b})
		}
	}
	return enough
}

// Release releases all blocks of s, last to first, after the passes in progress that write to them.
func (o *offloaded) Release(s slot) { o.conn.releaseBlocks(&o.conn.core.requests[s], true) }

// stripBlocks releases all blocks of r, which remembers the named ones.
func (o *offloaded) stripBlocks(r *request) {
	if o.conn.device != nil {
		r.former = append(r.former[:0], r.held[:r.named]...)
	}
	o.conn.releaseBlocks(r, false)
}

// Forget drops all data of s, which has no blocks and has left.
func (o *offloaded) Forget(s slot) {
	o.stock.Forget(s)
	o.conn.endRequest(s)
}

// FromHost returns how many of the first tokens of s, which are cached, were loaded for it.
func (o *offloaded) FromHost(s slot, tokens int) int {
	c := o.conn.core
	f := c.requests[s].offload
	from := f.From << c.shift
	n := max(0, min(f.To<<c.shift, tokens)-from)
	f.From, f.To = 0, 0
	return n
}

// Fetching is the number of requests out of the queue.
func (o *offloaded) Fetching() int { return len(o.conn.aside) }

// Busy reports whether any transfer is pending.
func (o *offloaded) Busy() bool { return o.conn.Pending > 0 }

// Check panics if the counters of device or host memory do not agree.
func (o *offloaded) Check() {
	o.stock.checkWith(o.conn)
	o.conn.Memory.Check()
}

// checkWith panics if the counters do not agree, including the blocks that only the connector k holds.
func (p singles) checkWith(k *connector) {
	holders := p.noHolders()
	count := func(all []blockID) {
		for _, b := range all {
			holders[b]++
		}
	}
	for _, s := range k.aside {
		count(p.core.requests[s].held)
	}
	for _, f := range k.fenced {
		count(f.blocks)
	}
	for _, j := range k.orphans {
		count(j.Held)
	}
	if k.simple != nil {
		k.simple.EachHeld(count)
	}
	p.checkHolders(holders)
}

// releaseFence releases the blocks that were held until the end of a pass.
func (p singles) releaseFence(f *fence) { p.dropHolders(f.blocks) }
