package trtllm

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Host is the configuration of host memory for KV blocks: host_cache_size.
type Host struct {
	Blocks            int     // number of blocks; 0: no host memory
	BytesPerToken     int     // bytes of KV cache; 0: copies take no time
	ToHostGBPerSecond float64 // 10^9 bytes per second; 0: copies take no time
	ToGPUGBPerSecond  float64 // 10^9 bytes per second for copies to the GPU; 0: copies take no time
}

func (h *Host) check(reuse bool) error {
	switch {
	case h.Blocks < 0 || h.Blocks > math.MaxInt32:
		return fmt.Errorf("host memory has %d blocks, must be 0 to %d", h.Blocks, math.MaxInt32)
	case h.Blocks > 0 && !reuse:
		return fmt.Errorf("host memory requires enable_prefix_caching")
	case !(h.ToHostGBPerSecond >= 0) || !(h.ToGPUGBPerSecond >= 0):
		return fmt.Errorf("bandwidths between GPU and host are %v and %v, must be at least 0", h.ToHostGBPerSecond, h.ToGPUGBPerSecond)
	}
	return nil
}

// tier is the state of host memory. To move a block, the pool swaps it with a block of the other memory.
type tier struct {
	fresh      int     // number of blocks that were never used
	queue      waiting // blocks without a reference
	sent, read int     // blocks copied to and from the host by the current plan
	busyTo     sim.Time
	busyFrom   sim.Time
}

// offload moves b, the first block of the free queue, to host memory. In exchange, the first block of the free queue
// in host memory moves to the device. offload returns this block, held once.
func (p *pool) offload(b blockID) blockID {
	t := &p.host
	l := t.queue.front(t.fresh)
	h := l.first
	if t.fresh > 0 && l == &t.queue.usual {
		t.fresh--
		h = p.newBlock(1)
		p.all[h].host = true
	} else {
		unlinkBlock(p, l, h, queueLinks)
		p.noteTaken(h)
	}
	out, in := &p.all[b], &p.all[h]
	unlinkBlock(p, p.queueOf(out), b, queueLinks)
	p.countIdle(out, -1)
	p.noteTaken(b)
	out.host, in.host, in.refs = true, false, 1
	linkBlock(p, p.queueOf(out), b, queueLinks)
	t.sent++
	if out.parent != noBlock {
		p.events.noteMoved(b, scheduler.HostPinned)
	}
	return h
}

// onboard moves b to the device if it is in host memory; r holds b for some tokens of its prompt.
func (p *pool) onboard(r *request, b blockID, tokens int) {
	if !p.all[b].host {
		return
	}
	x := p.takeBlock()
	k := &p.all[x]
	k.host, k.refs, k.priority, p.all[b].host = true, 0, DefaultPriority, false
	linkBlock(p, p.queueOf(k), x, queueLinks)
	p.host.read++
	r.loaded += tokens
	p.events.noteMoved(b, scheduler.Device)
}

// moveBlocks starts the copies of a plan at the start of p, and returns their end. Each direction has a link, which
// runs one copy at a time.
func (t *tier) moveBlocks(c *Config, p *scheduler.Pass) sim.Time {
	if t.sent+t.read == 0 {
		return 0
	}
	bytes := float64(c.BlockTokens) * float64(c.Host.BytesPerToken)
	copy := func(busy *sim.Time, blocks int, gbps float64) {
		if blocks > 0 && gbps > 0 {
			*busy = max(*busy, p.Start) + sim.Time(math.RoundToEven(float64(blocks)*bytes/gbps)/1e6)
		}
	}
	copy(&t.busyTo, t.sent, c.Host.ToHostGBPerSecond)
	copy(&t.busyFrom, t.read, c.Host.ToGPUGBPerSecond)
	p.ToHost += t.sent * c.BlockTokens
	p.FromHost += t.read * c.BlockTokens
	t.sent, t.read = 0, 0
	return max(t.busyTo, t.busyFrom)
}

// wait returns the time from now until the copies of a pass end, in ms, rounded up to whole ns.
func (f *flight) wait(now sim.Time) float64 {
	return math.Ceil(float64((f.ready-now).Max0())*1e6) / 1e6
}
