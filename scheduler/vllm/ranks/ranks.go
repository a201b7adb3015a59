// Package ranks is a vLLM server of several data-parallel engines in lockstep, by the rules of vLLM's separate
// processes (docs/rules/vllm.md, "Data-parallel ranks"). A rank without a pass runs a dummy pass. A wave of passes
// ends when all ranks agree that no requests are left. The front end distributes requests by the coordinator's latest
// message and the requests assigned since.
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

// Rules are the differences between releases of vLLM.
type Rules struct {
	SyncPasses int  // ranks agree after every pass of a wave with a number divisible by SyncPasses
	SyncFirst  bool // ranks agree after the first pass of a wave, too
	InFlight   bool // the front end counts the requests it has assigned, and considers KV cache usage if requests wait
}

// Core is a worker with several ranks.
type Core struct {
	*lockstep.Core
	rules   Rules
	clock   *timing.Clock
	members []*member
	front   *frontEnd
	running bool     // a wave is running
	wave    int      // number of the wave
	passes  int      // number of passes in the wave so far
	free    sim.Time // end of the latest pass
	failed  error    // error of a dummy pass
}

// New returns an idle worker of n ranks with configuration cfg.
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

// Submit queues r on the rank that the front end chooses.
func (c *Core) Submit(r *sim.Request) {
	if at := max(r.Arrived, c.front.now); c.Load() == 0 && c.failed == nil {
		c.failed = c.runDummyPasses(at)
	}
	c.Core.Submit(r)
}

// Step runs the pass that starts at now on all ranks, or waits for the end of a running dummy pass.
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
		c.reportPass(i, m, now, p.End)
	}
	if c.rules.SyncFirst && !c.running && dummies {
		c.front.add(news{at: p.End})
	}
	c.free, c.running = p.End, true
	c.endPass(unfinished)
	return nil
}

// openPass prepares all ranks for the pass that starts at now. If ranks agree after the pass, computing ranks wait
// for dummy passes of other ranks. openPass reports whether a rank runs a dummy pass.
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

// reportPass reports a pass of rank i, from now to end, to the front end.
func (c *Core) reportPass(i int, m *member, now, end sim.Time) {
	switch {
	case m.waited:
		c.reportLoad(i, news{at: now, turn: agreed, counts: m.arrived})
		if m.sits {
			c.reportLoad(i, news{at: now + sim.Time(m.nap), counts: m.planned})
		} else {
			c.reportLoad(i, news{at: now, turn: agreed, counts: m.planned})
		}
	case m.sits || m.ahead && m.waits:
	case m.ahead && c.agree(c.passes+1):
		c.reportLoad(i, news{at: now, turn: agreed, counts: m.arrived, pass: 1})
	default:
		c.reportLoad(i, news{at: now, turn: planned, counts: m.arrived, pass: asNumber(m.ahead)})
		if m.computes && !m.ahead && m.TwoInFlight() {
			c.reportLoad(i, news{at: now, turn: planned, counts: m.planned})
		}
	}
	m.waited = m.computes && m.waits
	if n := m.load - m.Load(); n > 0 {
		c.front.add(news{at: end, rank: i, done: n})
	}
	if m.computes && !m.waited {
		nap, _ := m.IsDrained()
		c.reportLoad(i, news{at: end + sim.Time(nap), counts: m.Counts(), pass: asNumber(m.TwoInFlight())})
	}
}

// asNumber returns 1 for true and 0 for false.
func asNumber(is bool) int {
	if is {
		return 1
	}
	return 0
}

// reportLoad reports the load of rank i to the coordinator if it has changed. The report belongs to the next pass, or
// to the pass n.pass passes later.
func (c *Core) reportLoad(i int, n news) {
	m := c.members[i]
	if n.counts.Waiting == m.told.Waiting && n.counts.Running == m.told.Running {
		return
	}
	m.told = n.counts
	n.rank, n.wave, n.pass, n.tells = i, c.wave, n.pass+c.passes, true
	c.front.add(n)
}

// agree reports whether ranks exchange after a pass whether requests are left. pass is the number of the pass in its
// wave.
func (c *Core) agree(pass int) bool {
	return pass%c.rules.SyncPasses == 0 || pass == 1 && c.rules.SyncFirst
}

// endPass counts a pass. endPass ends the wave if ranks agree that no requests are left.
func (c *Core) endPass(unfinished bool) {
	c.passes++
	if unfinished || !c.agree(c.passes) {
		return
	}
	c.running, c.passes = false, 0
	c.wave++
	c.front.add(news{at: c.free})
}

// runDummyPasses runs the dummy passes on idle ranks that begin before now.
func (c *Core) runDummyPasses(now sim.Time) error {
	for c.running && c.free < now {
		nap := 0
		for i, m := range c.members {
			waited := m.waited
			ms := m.beginDummyPass(c.free)
			if nap = max(nap, ms); waited {
				c.reportLoad(i, news{at: c.free + sim.Time(ms), counts: m.Counts()})
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

// Cancel removes a request from its rank.
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
