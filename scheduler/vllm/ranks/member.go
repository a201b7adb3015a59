package ranks

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

// dummyStep returns the work of a dummy pass: one token of one request without KV cache.
func dummyStep() *timing.Step { return &timing.Step{Tokens: 1, Requests: 1, Readers: 1, Decodes: 1} }

// member is a rank with its data of the running pass.
type member struct {
	vllm.Rank
	load    int         // number of requests before the pass
	left    int         // number of requests that count for agreement if the rank runs a dummy pass
	told    vllm.Counts // load in the latest report to the coordinator
	arrived vllm.Counts // load after new requests were queued
	planned vllm.Counts // load after planning, if the pass began at once
	nap     int         // sleep before the pass in ms
	ahead   bool        // the pass was planned while the previous pass ran
	waits   bool        // the next pass is planned after the end of this pass
	waited  bool        // this pass is planned after the end of the previous pass
	late    scheduler.Pass
	dummy   *timing.Step
	sits    bool // the rank runs a dummy pass because its plan is empty
	// computes tells whether the rank computes tokens in the pass. unfinished tells whether the rank counts as
	// unfinished when ranks agree.
	computes, unfinished bool
}

// open prepares the pass that starts at now.
func (m *member) open(now sim.Time) {
	m.nap, m.sits = m.TakeSleep(now)
	m.load, m.ahead, m.arrived = m.Load(), m.IsAhead(), m.Counts()
	if m.waited {
		m.arrived = m.CountHeld()
		m.planLate(now)
	}
	m.computes, m.unfinished = false, m.sits && m.left > 0
}

// beginDummyPass starts a dummy pass at now on a rank without requests. beginDummyPass returns the sleep before the
// pass in ms.
func (m *member) beginDummyPass(now sim.Time) int {
	nap, _ := m.TakeSleep(now)
	if m.waited {
		m.FreeLeaving()
		nap = m.NapTime(false)
	}
	m.waited, m.left = false, 0
	return nap
}

// planLate plans the pass that starts at now, including requests that arrived by then.
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
	nap, _ := m.TakeSleep(now)
	m.nap = max(m.nap, nap)
	return step, nil
}

// addLate adds the results of planLate to p.
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

// End completes the current pass.
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

// Planned returns false: ranks with empty plans join a pass of other ranks.
func (m *member) Planned() bool { return false }

// Wait starts a pass that other ranks run.
func (m *member) Wait(now sim.Time, p *scheduler.Pass) float64 {
	p.Reset(now)
	return float64(m.nap)
}

// CopyTime returns the sleep before the pass in ms.
func (m *member) CopyTime(sim.Time) float64 { return float64(m.nap) }
