// Package ranks is a vLLM server of several data-parallel engines in lockstep, by the rules of vLLM's own processes
// (docs/rules/vllm.md, "Data-parallel ranks"): a rank without a pass runs a dummy pass, and a wave of passes ends when
// all ranks agree that nothing is left. The front end spreads requests by the coordinator's latest message and the
// requests sent since.
//
// Read ranks.go, member.go, then frontend.go and coordinator.go.
package ranks

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/lockstep"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

// Rules are what releases of vLLM do differently.
type Rules struct {
	SyncPasses int  // ranks agree in every pass with a number in its wave that divides by it
	SyncFirst  bool // and in the first
	InFlight   bool // the front end goes by the requests it has sent, and by how full KV caches are where requests wait
}

// Core is a worker of several ranks.
type Core struct {
	*lockstep.Core
	rules   Rules
	clock   *timing.Clock
	members []*member
	front   *frontEnd
	running bool     // a wave has begun and not ended
	wave    int      // its number
	passes  int      // passes of the wave so far
	free    sim.Time // the end of the latest pass
	failed  error    // of a dummy pass
}

// New returns an idle worker of n ranks with the settings cfg.
func New(cfg vllm.Config, n int, r Rules) (*Core, error) {
	c := &Core{rules: r, front: newFrontEnd(n, r)}
	var all []lockstep.Rank
	var planners []lockstep.Planner
	for range n {
		m := &member{dummy: dummyStep()}
		var err error
		if m.Rank, err = vllm.NewRank(cfg, &m.planned); err != nil {
			return nil, err
		}
		c.members, all, planners = append(c.members, m), append(all, m), append(planners, m)
	}
	c.Core = lockstep.New(all, lockstep.Options{Clock: cfg.Clock, Balancer: c.front, Planners: planners, Sleeps: true})
	c.clock = &c.Core.Clock
	return c, nil
}

// Submit queues r at the rank that the front end chooses.
func (c *Core) Submit(r *sim.Request) {
	if at := max(r.Arrived, c.front.now); c.Load() == 0 && c.failed == nil {
		c.failed = c.runDummyPasses(at)
	}
	c.Core.Submit(r)
}

// Step runs the pass that starts at now on all ranks, or waits for the end of a dummy pass that has begun.
func (c *Core) Step(now, until sim.Time, p *scheduler.Pass) error {
	if c.failed != nil {
		return c.failed
	}
	if c.free > now {
		p.Reset(now)
		p.End, p.Gap = c.free, c.free-now
		return nil
	}
	c.front.now = now
	dummies := c.openPass(now)
	if err := c.Core.Step(now, until, p); err != nil {
		return err
	}
	unfinished := false
	for i, m := range c.members {
		unfinished = unfinished || m.unfinished
		c.tellPass(i, m, now, p.End)
	}
	if c.rules.SyncFirst && !c.running && dummies {
		c.front.add(news{at: p.End})
	}
	c.free, c.running = p.End, true
	c.endPass(unfinished)
	return nil
}

// openPass prepares all ranks for the pass that starts at now. If ranks agree after it, computing ranks wait for the dummy passes
// of the other ranks. It reports whether a rank runs a dummy pass.
func (c *Core) openPass(now sim.Time) (dummies bool) {
	for _, m := range c.members {
		m.open(now)
		dummies = dummies || m.runsDummy()
	}
	for _, m := range c.members {
		m.waits = dummies && !m.runsDummy() && m.CanWait() && c.agree(c.passes+1)
		m.WaitToPlan(m.waits)
	}
	return dummies
}

// tellPass reports to the front end what a pass from now to end did on rank i.
func (c *Core) tellPass(i int, m *member, now, end sim.Time) {
	switch {
	case m.waited:
		c.tellFront(i, news{at: now, turn: agreed, counts: m.arrived})
		if m.sits {
			c.tellFront(i, news{at: now + sim.Time(m.nap), counts: m.planned})
		} else {
			c.tellFront(i, news{at: now, turn: agreed, counts: m.planned})
		}
	case m.sits || m.ahead && m.waits:
	case m.ahead && c.agree(c.passes+1):
		c.tellFront(i, news{at: now, turn: agreed, counts: m.arrived, pass: 1})
	default:
		c.tellFront(i, news{at: now, turn: planned, counts: m.arrived, pass: asNumber(m.ahead)})
		if m.computes && !m.ahead && m.TwoInFlight() {
			c.tellFront(i, news{at: now, turn: planned, counts: m.planned})
		}
	}
	m.waited = m.computes && m.waits
	if n := m.load - m.Load(); n > 0 {
		c.front.add(news{at: end, rank: i, done: n})
	}
	if m.computes && !m.waited {
		nap, _ := m.IsDrained()
		c.tellFront(i, news{at: end + sim.Time(nap), counts: m.Counts(), pass: asNumber(m.TwoInFlight())})
	}
}

// asNumber returns 1 for true.
func asNumber(is bool) int {
	if is {
		return 1
	}
	return 0
}

// tellFront reports the load of rank i to the coordinator, if it has changed: in its next pass, or n.pass passes later.
func (c *Core) tellFront(i int, n news) {
	m := c.members[i]
	if n.counts.Waiting == m.told.Waiting && n.counts.Running == m.told.Running {
		return
	}
	m.told = n.counts
	n.rank, n.wave, n.pass, n.tells = i, c.wave, n.pass+c.passes, true
	c.front.add(n)
}

// agree reports whether ranks agree in a pass of a wave whether requests are left.
func (c *Core) agree(pass int) bool {
	return pass%c.rules.SyncPasses == 0 || pass == 1 && c.rules.SyncFirst
}

// endPass counts a pass, and ends the wave where ranks agree that none has a request left.
func (c *Core) endPass(unfinished bool) {
	c.passes++
	if unfinished || !c.agree(c.passes) {
		return
	}
	c.running, c.passes = false, 0
	c.wave++
	c.front.add(news{at: c.free})
}

// runDummyPasses runs the dummy passes that begin before now on idle ranks.
func (c *Core) runDummyPasses(now sim.Time) error {
	for c.running && c.free < now {
		nap := 0
		for i, m := range c.members {
			waited := m.waited
			ms := m.beginDummyPass(c.free)
			if nap = max(nap, ms); waited {
				c.tellFront(i, news{at: c.free + sim.Time(ms), counts: m.Counts()})
			}
		}
		ms, err := c.clock.Step(c.members[0].dummy)
		if err != nil {
			return err
		}
		c.free = c.free + sim.Time(nap) + sim.Time(ms)
		c.endPass(false)
	}
	return nil
}

// Cancel takes a request out of the rank that has it.
func (c *Core) Cancel(now sim.Time, id sim.RequestID, p *scheduler.Pass) bool {
	for _, m := range c.members {
		m.load = m.Load()
	}
	ok := c.Core.Cancel(now, id, p)
	for i, m := range c.members {
		if n := m.load - m.Load(); n > 0 {
			c.front.add(news{at: now, rank: i, done: n})
		}
	}
	return ok
}
