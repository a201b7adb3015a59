package vllm

import (
	"fmt"

	"github.com/replay-llm/replay/internal/invariant"
)

// check holds the core's accounts against each other.
func (c *Core) check() {
	if !invariant.Enabled {
		return
	}
	holders := make([]int32, len(c.blocks.all))
	steadies, targets, last := 0, int64(0), uint64(0)
	for _, s := range c.running {
		r := &c.requests[s]
		n := 0
		if r.state == steady {
			n = int(c.plans - r.since + 1)
			steadies++
			targets += int64(r.target) - r.since
		}
		if r.state < running || r.computed > r.target || r.target+n > r.end || len(r.held)<<c.shift < r.computed+n || r.order <= last {
			panic(fmt.Sprintf("request %d in state %d: %d tokens computed of %d, at most %d, in %d blocks; admitted as %d after %d",
				r.id, r.state, r.computed+n, r.target+n, r.end, len(r.held), r.order, last))
		}
		last = r.order
		for _, b := range r.held {
			holders[b]++
		}
	}
	if n := len(c.running) + c.waiting.len(); n != c.live {
		panic(fmt.Sprintf("%d running + %d waiting != %d submitted and not finished", len(c.running), c.waiting.len(), c.live))
	}
	if k := &c.calm; steadies != k.count || targets != k.targets || len(k.lively)+k.count != len(c.running) {
		panic(fmt.Sprintf("running: %d steady with targets of %d, %d and %d counted; %d lively of %d",
			steadies, targets, k.count, k.targets, len(k.lively), len(c.running)))
	}
	held := 0
	for i, n := range holders {
		if n != c.blocks.all[i].holders {
			panic(fmt.Sprintf("block %d has %d holders, %d counted", i, n, c.blocks.all[i].holders))
		}
		if n > 0 {
			held++
		}
	}
	c.checkQueue(held)
}

func (c *Core) checkQueue(held int) {
	p := &c.blocks
	queued, cached := p.fresh+len(p.plain), 0
	for b := p.first; b != noBlock; b = p.all[b].newer {
		queued++
		if p.all[b].key != unnamed {
			cached++
		}
	}
	if queued != p.free || cached != p.cached || held+queued != p.usable {
		panic(fmt.Sprintf("block pool: %d held + %d free (%d counted) != %d, %d cached (%d counted)",
			held, queued, p.free, p.usable, cached, p.cached))
	}
}
