package reference

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// preemptVictim preempts the running request admitted last or first to get blocks for serving. The victim can be
// serving itself. preemptVictim returns none if no request runs.
func (c *Core) preemptVictim(serving slot) slot {
	v := c.running.back
	if c.cfg.Preemption == vllm.FIFO {
		v = c.running.front
	}
	if v == none {
		return none
	}
	r := &c.requests[v]
	if r.state == steady {
		c.endSteady(v, c.pass.emitting && r.order < c.requests[serving].order)
	}
	if invariant.Enabled && r.state != irregular {
		panic(fmt.Sprintf("preempt: request %d is %v, must be irregular", r.id, r.state))
	}
	if !c.pass.emitting && r.planned == c.passes {
		c.countShare(r.plan, -1)
		c.pass.budget += r.plan.total
		c.notes = slices.DeleteFunc(c.notes, func(e entry) bool { return e.slot == v })
		r.planned = -1
	}
	if v != serving && c.cfg.Preemption == vllm.FIFO {
		c.pass.fronted++
	}
	c.pool.Release(v)
	r.allocated, r.computed, r.state = 0, 0, preempted
	c.removeFrom(&c.running, v)
	c.pushFront(&c.waiting, v)
	c.irregular--
	c.pass.lost++
	if d := c.pass.out.Detail; d != nil {
		d.Lost = append(d.Lost, r.id)
	}
	return v
}
