package vllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Counts is the load report of a data-parallel rank to the server's coordinator.
type Counts struct {
	Waiting, Running int     // requests
	Usage            float64 // share of KV blocks in use
}

// apart is the state of a core as a data-parallel rank.
type apart struct {
	tells   *Counts // receives the load after the plan of a pass that begins immediately; nil: none
	drained bool    // a plan made while a pass ran was empty
	waits   bool    // no pass is planned while the running pass runs
	late    bool    // the current plan was delayed until the end of a pass
	leaving []slot  // requests that left with the latest pass; their blocks are not free for the next plan
	gone    int     // number of requests that a plan counts as running, although they left with the previous pass
	running int     // number of running requests before this pass was delivered
}

// countRequests returns the current load of the rank.
func (c *Core) countRequests() Counts {
	n := Counts{Usage: 1 - float64(c.supply.free)/float64(c.cfg.Blocks-1)}
	n.Waiting, n.Running = c.Line()
	return n
}

// Rank is a core as one of several data-parallel ranks. Package ranks determines the durations of a rank's passes.
type Rank struct{ *Core }

// NewRank returns an idle rank that writes its load to told after the plan of a pass that begins immediately.
func NewRank(cfg Config, told *Counts) (Rank, error) {
	c, err := New(cfg)
	if err == nil {
		c.apart.tells = told
	}
	return Rank{c}, err
}

// Counts returns the current load of the rank.
func (r Rank) Counts() Counts { return r.countRequests() }

// CountHeld returns the load of the rank before its latest pass was delivered, plus later arrivals.
func (r Rank) CountHeld() Counts {
	n := r.countRequests()
	n.Running = r.apart.running
	return n
}

// TwoInFlight reports whether the rank plans a pass while the previous pass runs.
func (r Rank) TwoInFlight() bool { return r.rules.TwoInFlight }

// IsAhead reports whether the rank has planned the next pass.
func (r Rank) IsAhead() bool { return r.rules.TwoInFlight && !r.next.isEmpty() }

// IsDrained reports whether the plan of the next pass, made while the latest pass ran, was empty. ms is the time in
// ms for which the engine sleeps after it.
func (r Rank) IsDrained() (ms int, drained bool) {
	if r.apart.drained && r.drafts.awake > 0 {
		ms = r.rules.EmptyPassMs
	}
	return ms, r.apart.drained
}

// TakeSleep returns the time in ms for which the engine sleeps before the pass that starts at now. drained reports
// whether the plan of that pass was empty, so that the rank runs a dummy pass. TakeSleep resets ms and drained.
func (r Rank) TakeSleep(now sim.Time) (ms int, drained bool) {
	if r.drafts.awake > now {
		ms = r.rules.EmptyPassMs
	}
	drained = r.apart.drained
	r.drafts.awake, r.apart.drained = 0, false
	return ms, drained
}

// NapTime returns the time in ms for which the engine sleeps after an empty plan; left tells whether requests are
// left.
func (r Rank) NapTime(left bool) int {
	if left || r.rules.EmptyPassIdle {
		return r.rules.EmptyPassMs
	}
	return 0
}

// CanWait reports whether the rank can delay a plan until the previous pass has ended. A rank cannot delay plans with
// host memory, which requires two passes in flight.
func (r Rank) CanWait() bool { return r.rules.TwoInFlight && r.conn == nil }

// WaitToPlan controls whether the next pass is the only one in flight. If waits is set, PlanLate plans the pass after
// the next pass.
func (r Rank) WaitToPlan(waits bool) { r.apart.waits = waits }

// NoteSeats records the number of running requests before a pass is delivered.
func (r Rank) NoteSeats() { r.apart.running = len(r.Core.running) }

// PlanLate plans the next pass with the blocks and the running requests from before the latest pass was delivered.
// PlanLate reports whether the plan has any work.
func (r Rank) PlanLate(out *scheduler.Pass) bool {
	r.events.BeginPass(out)
	r.apart.gone = r.apart.running - len(r.Core.running)
	r.apart.late = true
	r.planPass(r.next, out)
	r.apart.gone, r.apart.late = 0, false
	r.FreeLeaving()
	return !r.next.isEmpty()
}

// FreeLeaving releases the blocks of requests that left with the pass that PlanLate waited for.
func (r Rank) FreeLeaving() {
	for _, s := range r.apart.leaving {
		r.Release(r.requests[s].id)
	}
	r.apart.leaving = r.apart.leaving[:0]
}

// stripLeaving releases the blocks of a request that left with the previous pass, if a plan would preempt it before
// v.
func (c *Core) stripLeaving(v *request) (s slot, ok bool) {
	best := -1
	for i, s := range c.apart.leaving {
		if r := &c.requests[s]; c.losesBefore(r, v) {
			best, v = i, r
		}
	}
	if best < 0 {
		return 0, false
	}
	s = c.apart.leaving[best]
	c.apart.leaving = slices.Delete(c.apart.leaving, best, best+1)
	c.apart.gone--
	c.Release(v.id)
	return s, true
}

// losesBefore reports whether r would be preempted before v.
func (c *Core) losesBefore(r, v *request) bool {
	if c.cfg.Scheduling == ByPriority {
		return r.rank.lessUrgent(&v.rank)
	}
	return r.order > v.order
}
