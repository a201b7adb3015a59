package ranks

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

// dummyStep returns the work of a dummy pass: one token of one request, without KV cache.
func dummyStep() *timing.Step { return &timing.Step{Tokens: 1, Requests: 1, Readers: 1, Decodes: 1} }

// member is a rank with what it does in the running pass.
type member struct {
	vllm.Rank
	load    int         // requests before the pass
	left    int         // requests that it counts when ranks agree, where it runs a dummy pass
	told    vllm.Counts // to the coordinator, the latest
	arrived vllm.Counts // when it had taken in what had come
	planned vllm.Counts // when it had planned a pass that began at once
	nap     int         // ms before the pass
	ahead   bool        // the pass was planned while the one before it ran
	waits   bool        // the plan of the next pass waits for the end of this one
	waited  bool        // the plan of the pass waits for the end of the one before it
	late    scheduler.Pass
	dummy   *timing.Step
	sits    bool // it runs a dummy pass, having planned nothing to compute
	// computes is whether it computes something in the pass; unfinished is its value when ranks agree.
	computes, unfinished bool
}

// open prepares the pass that starts at now.
func (m *member) open(now sim.Time) {
	m.nap, m.sits = m.TakeNap(now)
	m.load, m.ahead, m.arrived = m.Load(), m.IsAhead(), m.Counts()
	if m.waited {
		m.arrived = m.CountHeld()
		m.planLate(now)
	}
	m.computes, m.unfinished = false, m.sits && m.left > 0
}

// beginDummyPass begins a dummy pass at now of a rank that had no request then, and returns for how long it sleeps before, in ms.
func (m *member) beginDummyPass(now sim.Time) int {
	nap, _ := m.TakeNap(now)
	if m.waited {
		m.FreeLeaving()
		nap = m.NapTime(false)
	}
	m.waited, m.left = false, 0
	return nap
}

// planLate plans the pass that starts at now with requests that have come by then.
func (m *member) planLate(now sim.Time) {
	if m.late.Detail == nil {
		m.late.Detail = new(scheduler.Detail)
	}
	m.late.Reset(now)
	m.left = m.load
	if m.load == 0 {
		m.FreeLeaving()
		m.sits, m.nap = true, m.NapTime(false)
	} else if !m.PlanLate(&m.late) {
		m.sits, m.nap = true, m.NapTime(true)
	}
	m.planned = m.Counts()
}

// runsDummy reports whether the rank runs a dummy pass.
func (m *member) runsDummy() bool { return m.sits || m.load == 0 }

// Begin plans the pass of a rank with requests.
func (m *member) Begin(now sim.Time, p *scheduler.Pass) (*timing.Step, error) {
	if m.sits {
		p.Reset(now)
		m.addLate(p)
		return m.dummy, nil
	}
	step, err := m.Rank.Begin(now, p)
	if err != nil {
		m.sits = true
		return nil, err
	}
	m.addLate(p)
	m.computes = true
	nap, _ := m.TakeNap(now)
	m.nap = max(m.nap, nap)
	return step, nil
}

// addLate enters what planLate did.
func (m *member) addLate(p *scheduler.Pass) {
	if m.waited {
		p.Admitted = slices.Insert(p.Admitted, 0, m.late.Admitted...)
		p.Events = slices.Insert(p.Events, 0, m.late.Events...)
		p.Preempted += m.late.Preempted
		if d, late := p.Detail, m.late.Detail; d != nil {
			d.Lost = slices.Insert(d.Lost, 0, late.Lost...)
			d.Resumed = slices.Insert(d.Resumed, 0, late.Resumed...)
			d.Work = slices.Insert(d.Work, 0, late.Work...)
		}
	}
}

// End runs the pass that has begun.
func (m *member) End(p *scheduler.Pass) error {
	if m.computes {
		m.NoteSeats()
		if err := m.Rank.End(p); err != nil {
			return err
		}
		m.unfinished = m.Load() > 0 || m.TwoInFlight()
	}
	m.left = m.Load()
	return nil
}

// Planned reports false: ranks that have planned nothing join a pass of the other ranks.
func (m *member) Planned() bool { return false }

// Wait begins a pass that other ranks run.
func (m *member) Wait(now sim.Time, p *scheduler.Pass) float64 {
	p.Reset(now)
	return float64(m.nap)
}

// CopyTime returns for how long the rank sleeps before its pass, in ms.
func (m *member) CopyTime(sim.Time) float64 { return float64(m.nap) }
