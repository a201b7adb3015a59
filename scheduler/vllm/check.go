package vllm

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/internal/invariant"
)

// checkAccounts panics if the counters of the core do not agree.
func (c *Core) checkAccounts() {
	if !invariant.Enabled {
		return
	}
	steadies, targets, last := 0, int64(0), uint64(0)
	for _, s := range c.running {
		r := &c.requests[s]
		n := 0
		if r.state == steady {
			n = int(c.plans - r.since + 1)
			steadies++
			targets += int64(r.target) - r.since
		}
		if r.state < running || r.computed > r.target || r.target+n > r.end && c.cfg.Speculation == nil || r.blocks<<c.shift < r.computed+n || r.order <= last {
			panic(fmt.Sprintf("request %d in state %d: %d tokens computed of %d, at most %d, in %d blocks; admitted as %d after %d",
				r.id, r.state, r.computed+n, r.target+n, r.end, r.blocks, r.order, last))
		}
		last = r.order
	}
	if n := len(c.running) + c.waiting.Len() + c.pool.Fetching(); n != c.live {
		panic(fmt.Sprintf("%d running + %d waiting + %d fetching != %d submitted and not finished", len(c.running), c.waiting.Len(), c.pool.Fetching(), c.live))
	}
	if k := &c.calm; steadies != k.count || targets != k.targets || len(k.lively)+k.count != len(c.running) {
		panic(fmt.Sprintf("running: %d steady with targets of %d, %d and %d counted; %d lively of %d",
			steadies, targets, k.count, k.targets, len(k.lively), len(c.running)))
	}
	if every := 1 + (c.supply.held()+c.supply.cached)/largeCheck; c.passes%int64(every) == 0 {
		c.pool.Check()
	}
}

// largeCheck is the maximum number of blocks for a check after every pass. A larger pool is checked less often,
// depending on its size.
const largeCheck = 2048

// Check panics if the counters of the pool do not agree.
func (p *device) Check() { p.checkHolders(p.noHolders()) }

// noHolders returns a slice with a zero holder count per block, valid until the next call.
func (p *device) noHolders() []int32 {
	p.counts = slices.Grow(p.counts[:0], len(p.all))[:len(p.all)]
	clear(p.counts)
	return p.counts
}

// checkHolders adds the holders of running and kept requests to holders, and compares the sums with the blocks.
func (p *device) checkHolders(holders []int32) {
	for _, all := range [...][]slot{p.core.running, p.core.kept} {
		for _, s := range all {
			for _, b := range p.core.requests[s].held {
				if b != noBlock {
					holders[b]++
				}
			}
		}
	}
	held := 0
	for b := range p.all {
		n := holders[b]
		if n != p.all[b].holders {
			panic(fmt.Sprintf("block %d has %d holders, %d counted", b, n, p.all[b].holders))
		}
		if n > 0 {
			held++
		}
	}
	p.checkQueue(held)
}

func (p *device) checkQueue(held int) {
	queued, cached := p.fresh+len(p.plain), 0
	p.queue.Visit(func(b blockID, place uint32) {
		if p.isQueued(b, place) {
			queued++
			if p.all[b].key != unnamed {
				cached++
			}
		}
	})
	if queued != p.free || cached != p.cached || held+queued != p.usable {
		panic(fmt.Sprintf("block pool: %d held + %d free (%d counted) != %d, %d cached (%d counted)",
			held, queued, p.free, p.usable, cached, p.cached))
	}
}
