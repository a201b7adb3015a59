package vllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// calm is the state of steady requests: requests that gain one token in every pass and do nothing else, so that
// passes need not read them. A steady request wakes up when it opens a block, samples its last token or is preempted.
type calm struct {
	off bool // requests never become steady
	// byBlocks reports whether the duration of a pass depends on the number of held blocks.
	byBlocks bool
	lively   []slot // running requests that are not steady, in order of admission
	count    int    // number of steady requests
	targets  int64  // Σ (target - since) over steady requests: at plan n they have targets + count·n tokens
	// calendar contains the requests that wake up in a plan, indexed by the number of the plan modulo its length. An
	// entry is stale if the request is not steady or wakes up in another plan.
	calendar [][]slot
	marked   []uint64 // a bit for each non-empty entry of calendar
	opening  []slot   // requests that open a block in a plan, see findOpening

	delivered int64    // the latest plan of a finished pass
	lastEnd   sim.Time // end of this pass
}

func (k *calm) init(cfg *Config) {
	r := &cfg.Rules
	// No request becomes steady if a request can be preempted after its tokens were planned, or if a planner reads
	// all requests.
	k.off = cfg.Planner || cfg.Speculation != nil || cfg.Scheduling == ByPriority || !r.WholeAllocation || !r.LastVictim || !r.AdmitIdle
	k.calendar = make([][]slot, 2*cfg.BlockTokens)
	k.marked = make([]uint64, (len(k.calendar)+63)/64)
	_, whole := cfg.Clock.Model.(timing.Stepper)
	k.byBlocks = !whole || !r.MixedStep
}

// addWake adds s to the calendar for a plan.
func (k *calm) addWake(s slot, plan int64) {
	at := plan % int64(len(k.calendar))
	k.calendar[at] = append(k.calendar[at], s)
	k.marked[at/64] |= 1 << (at % 64)
}

// clearBucket clears an entry of the calendar.
func (k *calm) clearBucket(at int64) {
	k.calendar[at] = k.calendar[at][:0]
	k.marked[at/64] &^= 1 << (at % 64)
}

// removeLively removes s from lively. removeLively searches from the end, because s is usually near the end.
func (k *calm) removeLively(s slot) {
	for i := len(k.lively) - 1; i >= 0; i-- {
		if k.lively[i] == s {
			k.lively = slices.Delete(k.lively, i, i+1)
			return
		}
	}
}

// wakeDue wakes up the requests that are due in the plan that begins.
func (c *Core) wakeDue() {
	at := c.plans % int64(len(c.calm.calendar))
	if c.calm.marked[at/64]>>(at%64)&1 == 0 {
		return
	}
	for _, s := range c.calm.calendar[at] {
		if r := &c.requests[s]; r.state == steady && r.wake == c.plans {
			c.endSteady(s)
			c.calm.lively = c.insertAdmitted(c.calm.lively, s)
		}
	}
	c.calm.clearBucket(at)
}

// insertAdmitted inserts s into all, which is in order of admission.
func (c *Core) insertAdmitted(all []slot, s slot) []slot {
	all = append(all, s)
	i := len(all) - 1
	for ; i > 0 && c.requests[all[i-1]].order > c.requests[s].order; i-- {
		all[i] = all[i-1]
	}
	all[i] = s
	return all
}

// endSteady updates the counters of s, which is no longer steady. If the previous pass has not ended, s still gains a
// token from it.
func (c *Core) endSteady(s slot) {
	r := &c.requests[s]
	n := c.plans - r.since
	late := min(n, c.plans-1-c.calm.delivered)
	c.calm.count--
	c.calm.targets -= int64(r.target) - r.since
	r.target += int(n)
	r.computed += int(n)
	r.given += int(n - late)
	if n > late {
		r.pass, r.lastAt = c.passes-1, c.calm.lastEnd
	}
	if late > 0 {
		c.next.steady--
		c.next.extra = append(c.next.extra, s)
	}
	if r.state = running; c.conn != nil {
		r.plan = c.plans - 1
	}
}

// reserveSteady subtracts the tokens of the steady requests from the budget. If other requests may take precedence
// over a steady request, all requests become lively.
func (c *Core) reserveSteady(p *pass) {
	if c.calm.count == 0 {
		return
	}
	wants, singles := 0, 0
	ahead := uint64(1) << 63 // order of the first request with more than one token to compute
	for _, s := range c.calm.lively {
		r := &c.requests[s]
		switch want := r.target - r.computed; {
		case r.target == r.end:
		case want == 1:
			singles++
			wants++
		default:
			wants += want
			ahead = min(ahead, r.order)
		}
	}
	if c.calm.count+wants <= p.budget || c.calm.count+singles <= p.budget && ahead > c.lastSteady() {
		p.budget -= c.calm.count
		return
	}
	for _, s := range c.running {
		if c.requests[s].state == steady {
			c.endSteady(s)
		}
	}
	c.calm.lively = append(c.calm.lively[:0], c.running...)
}

// lastSteady returns the order of the last admitted steady request.
func (c *Core) lastSteady() uint64 {
	for i := len(c.running) - 1; i >= 0; i-- {
		if r := &c.requests[c.running[i]]; r.state == steady {
			return r.order
		}
	}
	return 0
}

// markSteady marks requests as steady, from the next plan on, if they have decoded in f and only gain tokens for a
// while.
func (c *Core) markSteady(f *flight) {
	if c.calm.off {
		return
	}
	found := false
	for i := range f.shares {
		x := &f.shares[i]
		r := &c.requests[x.slot]
		// From its second token on, all further tokens are alike.
		if !x.samples || x.tokens != 1 || r.target < r.input+2 || r.state != running {
			continue
		}
		calmFor := min(-r.computed&c.mask, r.end-1-r.target)
		if c.groups != nil {
			calmFor = min(calmFor, c.groups.calmFor(r, c.windowLag()))
		}
		if calmFor < 1 {
			continue
		}
		r.state, r.since = steady, c.plans+1
		r.wake = r.since + int64(calmFor)
		c.calm.addWake(x.slot, r.wake)
		c.calm.count++
		c.calm.targets += int64(r.target) - r.since
		found = true
	}
	if found {
		c.calm.lively = slices.DeleteFunc(c.calm.lively, func(s slot) bool { return c.requests[s].state != running })
	}
}

// windowLag returns how many computed tokens of a decoding request do not count for windows yet.
func (c *Core) windowLag() int {
	if c.rules.WindowLag && c.rules.TwoInFlight {
		return 1
	}
	return 0
}

// deliverSteady ends pass f for requests without a share in it.
func (c *Core) deliverSteady(f *flight, p *scheduler.Pass) {
	n := f.steady + len(f.extra)
	p.Tokens += n
	p.Decoding += n
	for _, s := range f.extra {
		r := &c.requests[s]
		r.given++
		r.pass, r.lastAt = c.passes, p.End
	}
	c.calm.delivered, c.calm.lastEnd = f.plan, p.End
}
