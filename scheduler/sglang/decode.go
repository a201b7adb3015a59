package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// decoding is what a decode worker has beside what every engine has. Those who wait in its
// queue have no memory yet.
type decoding struct {
	retracted []*request // their KV cache is in host memory; they go before the queue
	arrived   []*request // have memory and all of their prompt in it, and no place yet
	ended     []endedOne // with the latest pass: they count until the next is planned
	looked    bool       // the queues were looked at for the pass that is planned next
}

// endedOne is what is left of a request that has ended.
type endedOne struct{ length, longest int }

// takesIn reports whether requests come with the KV cache of their prompts, to a decode worker
// of one rank, without windows, drafts, priorities and host memory.
func (c *Core) takesIn() bool {
	return c.Role == scheduler.Decode && !c.isRank && c.Window == 0 && c.Speculation == nil && !c.Priorities.On && c.tiers == nil
}

// takeIn lets requests in whose KV cache has come, each time before a pass is planned. It
// reports whether that, or a pass that was still under way, makes a pass of its own.
func (c *Core) takeIn(now sim.Time, p *scheduler.Pass) (bool, error) {
	c.openPass(now, p)
	if waits, err := c.finishLost(now, p); waits || err != nil {
		return waits, err
	}
	if now > c.lastEnd {
		c.ended = c.ended[:0]
	}
	for range 2 {
		if !c.looked {
			c.looked = true
			if c.lookAtQueues(p) {
				p.Nanos = append(p.Nanos, 0)
				c.describeState(p)
				c.check()
				return true, nil
			}
		}
		if c.next.planned {
			return false, nil
		}
		c.planPass(c.next, p)
		if !c.Overlap && c.next.planned {
			return false, nil
		}
	}
	if !c.next.planned && len(p.Aborted) > 0 {
		c.restAborted(p)
		return true, nil
	}
	if !c.next.planned {
		return false, c.stallError()
	}
	return false, nil
}

// finishLost ends a pass that was planned for requests which have all ended meanwhile. It
// began when they ended, and who comes during it waits in a pass up to its end.
func (c *Core) finishLost(now sim.Time, p *scheduler.Pass) (waits bool, err error) {
	f := c.next
	if !f.planned || f.lost < f.decodes || now <= c.lastEnd {
		return false, nil
	}
	c.measurePass()
	ms, err := c.Clock.Step(&c.step)
	if err != nil {
		return false, err
	}
	f.clear()
	c.done++
	c.lastEnd += sim.Time(ms)
	c.lastDecode = c.lastEnd
	c.ended = c.ended[:0]
	if c.lastEnd <= now {
		return false, nil
	}
	p.End = c.lastEnd
	p.Gap = p.End - p.Start
	c.describeState(p)
	return true, nil
}

// lookAtQueues gives memory to those who were retracted, then to those who wait, and a place
// in the line to as many as there are places. It reports whether anybody got one.
func (c *Core) lookAtQueues(p *scheduler.Pass) bool {
	if len(c.retracted) == 0 && c.waiting.Len() == 0 && len(c.arrived) == 0 {
		return false
	}
	c.resumeRetracted()
	if len(c.retracted) == 0 {
		c.admitArrivals()
	}
	return c.seatArrived(p)
}

// resumeRetracted gives memory to those who were retracted, in order, as long as there is
// as much as they had and a reserve for each.
func (c *Core) resumeRetracted() {
	active, n := c.countActive(), 0
	for _, r := range c.retracted {
		need := c.poolTokens(c.cacheOf(r)) + c.ReservedDecode
		fits := need <= c.free-c.ReservedDecode*(active+n)
		if c.slotsLeft() <= 0 || !fits && !c.isVacant() {
			break
		}
		c.allocCache(r)
		n++
	}
	c.retracted = c.retracted[:copy(c.retracted, c.retracted[n:])]
}

// admitArrivals gives memory to those who wait, in order, as long as there is a reserve for
// each who has some, and enough for one of them to end once all who run are retracted.
func (c *Core) admitArrivals() {
	active, longest, retractable := c.countActive(), 0, 0
	for _, e := range c.ended {
		retractable, longest = retractable+e.length, max(longest, e.longest)
	}
	for _, r := range c.running {
		retractable += r.InputTokens + c.gainedBy(r)
		longest = max(longest, c.longestOf(r))
	}
	for n := 0; c.waiting.Len() > 0; n++ {
		r := c.waiting.Front()
		budget := c.free - max(c.ReservedDecode*(active+n), longest-retractable)
		need := max(c.poolTokens(r.InputTokens)+c.ReservedDecode, c.longestOf(r)-retractable)
		if c.slotsLeft() <= 0 || need > budget && !c.isVacant() || c.MaxRunning > 0 && n >= 2*c.MaxRunning {
			return
		}
		c.waiting.PopFront()
		c.allocCache(r)
	}
}

// fewPlaces is the number of places up to which a server takes memory for twice as many more.
const fewPlaces = 32

// countActive returns the requests that have memory, and those that ended just now.
func (c *Core) countActive() int { return len(c.running) + len(c.ended) + len(c.arrived) }

// slotsLeft returns how many more requests may have memory.
func (c *Core) slotsLeft() int {
	if c.MaxRunning == 0 {
		return 1
	}
	slots := c.MaxRunning
	if slots <= fewPlaces {
		slots *= 3
	}
	return slots - len(c.running) - len(c.arrived)
}

// isVacant reports whether nobody has memory, where a worker takes whatever its pool can hold.
func (c *Core) isVacant() bool { return c.countActive() == 0 }

// cacheOf returns the tokens of the KV cache that r, which does not run, comes with: all but
// its latest output token.
func (c *Core) cacheOf(r *request) int { return r.InputTokens + max(0, r.out-1) }

// longestOf returns the tokens that r, with its output, has room reserved for.
func (c *Core) longestOf(r *request) int { return r.InputTokens + min(r.maxOut, c.ClipNewTokens) }

// allocCache takes memory for the KV cache that r comes with.
func (c *Core) allocCache(r *request) {
	r.stored = c.cacheOf(r)
	c.free -= c.poolTokens(r.stored)
	c.arrived = append(c.arrived, r)
}

// seatArrived lets those run who have memory, as long as there are places, and reports whether
// there are any. A new one has its first token at once.
func (c *Core) seatArrived(p *scheduler.Pass) bool {
	places := len(c.arrived)
	if c.MaxRunning > 0 {
		places = min(places, max(0, c.MaxRunning-len(c.running)-len(c.ended)))
	}
	for _, r := range c.arrived[:places] {
		p.Admitted = append(p.Admitted, scheduler.Admission{Request: r.ID, Again: r.resumed})
		if r.out == 0 {
			r.out, r.lastToken = 1, p.Start
			if m := p.AddToken(r.ID, 1, r.asked(), 0, false); m.Last {
				c.finishRequest(r)
				continue
			}
		}
		c.startRunning(r)
	}
	c.arrived = c.arrived[:copy(c.arrived, c.arrived[places:])]
	return places > 0
}

// removeQueued takes r, which does not run, out of the queue that it is in.
func (c *Core) removeQueued(r *request) {
	for _, line := range []*[]*request{&c.retracted, &c.arrived} {
		for i, x := range *line {
			if x == r {
				*line = append((*line)[:i], (*line)[i+1:]...)
				return
			}
		}
	}
	c.waiting.Remove(r)
}
