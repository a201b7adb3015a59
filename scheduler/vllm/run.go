package vllm

import (
	"math/bits"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// isCalm reports whether the pass at now only gives each steady request a token. Requests may just have opened a block
// and be steady again. The next plan may be different.
func (c *Core) isCalm(now sim.Time) bool {
	k := &c.calm
	if k.count == 0 || len(k.lively) > 0 || c.waiting.Len() > 0 && !c.stuck || now < c.drafts.awake {
		return false
	}
	if c.cold || c.conn != nil && !c.conn.isQuiet(now) || k.count > c.cfg.Budget() {
		return false
	}
	if c.rules.TwoInFlight {
		return c.isUneventful(c.next)
	}
	return c.next.isEmpty()
}

// countAlike returns the maximum number of uneventful passes from now on, in which every steady request only gains
// one token. If requests only open blocks in the next plan, countAlike opens them for p, the first of the passes.
func (c *Core) countAlike(p *scheduler.Pass) int {
	wake := c.nextWake()
	if wake == c.plans+1 && c.findOpening(wake) {
		c.events.BeginPass(p)
		c.openBlocks(wake)
		wake = c.nextWake()
	}
	return int(wake - c.plans - 1)
}

// findOpening lists in k.opening the requests that wake up in a plan, in order of admission. findOpening reports
// whether they all open a block, for which there is room, and are steady after it.
func (c *Core) findOpening(plan int64) bool {
	k := &c.calm
	if k.byBlocks || c.conn != nil || c.groups != nil || c.drafts.ahead || c.apart.late {
		return false
	}
	k.opening = k.opening[:0]
	opens := true
	for _, s := range k.calendar[plan%int64(len(k.calendar))] {
		r := &c.requests[s]
		if r.state != steady || r.wake != plan {
			continue
		}
		gained := int(plan - r.since)
		if opens = (r.computed+gained)&c.mask == 0 && r.target+gained+2 < r.end; !opens {
			break
		}
		r.wake = -1 // the calendar may have s twice
		k.opening = c.insertAdmitted(k.opening, s)
	}
	if opens && len(k.opening) <= c.supply.free {
		return true
	}
	for _, s := range k.opening {
		c.requests[s].wake = plan
	}
	return false
}

// openBlocks opens a block for each request of k.opening, in a plan. The requests stay steady.
func (c *Core) openBlocks(plan int64) {
	k := &c.calm
	k.clearBucket(plan % int64(len(k.calendar)))
	for _, s := range k.opening {
		r := &c.requests[s]
		gained := int(plan - r.since)
		late := min(gained, int(plan-1-k.delivered))
		c.pool.takeBlocks(r, r.blocks+1)
		if full := min(r.computed+gained+1, r.input+r.given+gained-late) >> c.shift; c.cfg.PrefixCaching && full > r.named {
			c.pool.nameBlocks(r, full)
		}
		r.wake = plan + 1 + int64(min(c.mask, r.end-r.target-gained-2))
		k.addWake(s, r.wake)
	}
}

// isUneventful reports whether every steady request gains a token in f that is neither its first nor its last. f must
// also take as long as a current plan, because no request was canceled since.
func (c *Core) isUneventful(f *flight) bool {
	n := c.calm.count
	if f.steady+f.live != n || f.step.Requests != n || c.calm.byBlocks && f.step.Active != c.activeTokens() {
		return false
	}
	for i := range f.shares {
		if x := &f.shares[i]; !x.dropped && c.requests[x.slot].pass != c.passes-1 {
			return false
		}
	}
	return len(f.extra) == 0
}

// nextWake returns the next plan in which a steady request wakes up. Some steady request wakes up within the length
// of the calendar.
func (c *Core) nextWake() int64 {
	k := &c.calm
	for plan, size := c.plans+1, int64(len(k.calendar)); ; plan++ {
		at := plan % size
		ahead := k.marked[at/64] >> (at % 64)
		if ahead == 0 {
			plan += min(63-at%64, size-1-at)
			continue
		}
		skip := int64(bits.TrailingZeros64(ahead))
		plan += skip
		if c.wakesAny(k.calendar[at+skip], plan) {
			return plan
		}
		k.clearBucket(at + skip)
	}
}

// wakesAny reports whether any request of bucket wakes up in a plan.
func (c *Core) wakesAny(bucket []slot, plan int64) bool {
	for _, s := range bucket {
		if r := &c.requests[s]; r.state == steady && r.wake == plan {
			return true
		}
	}
	return false
}

// takeRun runs up to n uneventful passes and plans as many. Except for the first, no pass starts at until or later.
// takeRun does not access steady requests.
func (c *Core) takeRun(n int, until sim.Time, p *scheduler.Pass) error {
	k, f := &c.calm, c.next
	if !c.rules.TwoInFlight {
		c.plans++
		f.step = c.measurePass(f)
		c.plans--
	}
	run := timing.Run{Apart: !c.rules.MixedStep, Until: until, Most: n, End: p.Start, Ends: p.Ends, Nanos: p.Nanos}
	if err := c.cfg.Clock.Repeat(&f.step, &run); err != nil {
		return err
	}
	p.Count, p.End, p.Ends, p.Nanos = len(run.Ends), run.End, run.Ends, run.Nanos
	p.Tokens, p.Decoding = k.count, k.count
	if d := p.Detail; d != nil {
		d.PrefillEnd = p.Start
	}
	for i := range f.shares {
		if x := &f.shares[i]; !x.dropped {
			r := &c.requests[x.slot]
			r.given++
			r.pass, r.lastAt = c.passes, p.Ends[0]
			if r.given == 2 {
				p.Second = append(p.Second, r.id)
			}
		}
	}
	if f.clear(); c.rules.TwoInFlight {
		f.steady = k.count
	}
	c.countPasses(p.Count, p.End)
	p.CutEnds(p.Count)
	c.idle, c.progress.further, c.progress.barren, c.gate.Left = false, false, 0, c.waiting.Len() > 0
	if c.conn != nil {
		if err := c.conn.endRun(p); err != nil {
			return err
		}
	}
	c.describePass(f, p)
	c.checkAccounts()
	return nil
}

// countPasses adds n uneventful passes to the counters, or removes them if n is negative. The last pass ends at end.
func (c *Core) countPasses(n int, end sim.Time) {
	c.passes += int64(n)
	c.plans += int64(n)
	c.gate.Planned += int64(n)
	c.calm.delivered, c.calm.lastEnd = c.plans, end
	if c.rules.TwoInFlight {
		c.calm.delivered, c.next.plan = c.plans-1, c.plans
	}
}

// Cut releases the passes of the run p after the first keep.
func (c *Core) Cut(p *scheduler.Pass, keep int) {
	back := p.Count - keep
	if back == 0 {
		return
	}
	p.CutEnds(keep)
	c.countPasses(-back, p.End)
	if c.rules.TwoInFlight {
		c.next.step.Grow(-back)
	}
	if c.conn != nil {
		c.conn.endRun(p)
	}
}
