package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// A prefill worker sends the KV cache of a prompt on its way chunk by chunk: what was cached
// before when the pass of the first chunk begins, each chunk when its pass ends, in whole pages but
// for the last. It keeps the pages until all has arrived.

// handsOver reports whether the engine is such a worker, without windows, drafts, priorities and host memory.
func (c *Core) handsOver() bool {
	return c.Role == scheduler.Prefill && c.Window == 0 && c.Speculation == nil && !c.Priorities.On && c.tiers == nil
}

// transferDelay returns the time that the whole KV cache of r takes to a decode worker.
func (c *Core) transferDelay(r *sim.Request) sim.Time {
	if c.Role != scheduler.Prefill {
		return 0
	}
	return c.Transfer.Delay(r.InputTokens)
}

// sending is a prompt whose pages are on their way.
type sending struct {
	*request
	until sim.Time
}

// sendUpTo sends the pages of r up to the first tokens, from now on, after what it has sent
// before, and returns how long after now they have all arrived.
func (c *Core) sendUpTo(r *request, tokens int, now sim.Time) sim.Time {
	n := tokens - r.sent
	if n <= 0 {
		return (r.arrives - now).Max0()
	}
	delay := c.Transfer.Delay(n)
	if r.arrives > now {
		delay += r.arrives - now
	}
	r.sent, r.arrives = tokens, now+delay
	return delay
}

// sendCached sends what the prompts of a batch found in the cache, from now on.
func (c *Core) sendCached(f *flight, now sim.Time) {
	for i := range f.batch {
		e := &f.batch[i]
		c.sendUpTo(e.request, floorTo(e.before, c.PageTokens), now)
	}
}

// handOver ends the prompt of r, which leaves, and returns how long after now its KV cache
// has arrived.
func (c *Core) handOver(r *request, now sim.Time) sim.Time {
	delay := c.sendUpTo(r, r.InputTokens, now)
	c.live--
	if delay <= 0 || c.isRank {
		c.releaseSent(r)
		return delay
	}
	c.cachePages(r)
	r.epoch++
	c.inFlight = append(c.inFlight, sending{r, now + delay})
	return delay
}

func (c *Core) releaseSent(r *request) {
	c.releasePages(r, true)
	c.full = false
	r.epoch++
	r.Request = nil
	c.spare = append(c.spare, r)
}

// releaseArrived gives back the pages of those prompts that have arrived by now.
func (c *Core) releaseArrived(now sim.Time) {
	kept := c.inFlight[:0]
	for _, s := range c.inFlight {
		if s.until <= now {
			c.releaseSent(s.request)
		} else {
			kept = append(kept, s)
		}
	}
	clear(c.inFlight[len(kept):])
	c.inFlight = kept
}

// nextArrival returns when the first of the prompts on their way has arrived, if there are any.
func (c *Core) nextArrival() (at sim.Time, ok bool) {
	for i, s := range c.inFlight {
		if i == 0 || s.until < at {
			at = s.until
		}
	}
	return at, len(c.inFlight) > 0
}

// waitForArrival makes a pass up to the next time at which pages come back, where nothing else
// can be done. It reports false when none are to come.
func (c *Core) waitForArrival(p *scheduler.Pass) bool {
	at, ok := c.nextArrival()
	if !ok {
		return false
	}
	p.End = at
	p.Gap = p.End - p.Start
	c.lastEnd = p.End
	c.releaseArrived(p.End)
	c.describeState(p)
	c.check()
	return true
}
