package vllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Counts is the report of a data-parallel rank to the server's coordinator.
type Counts struct {
	Waiting, Running int     // requests
	Usage            float64 // the share of KV blocks that requests hold
}

// apart is what a core keeps as a data-parallel rank.
type apart struct {
	tells   *Counts // after a plan of a pass that begins at once, or nil
	drained bool    // a plan was made while a pass ran, and found nothing to compute
	waits   bool    // the running pass is the only one that is planned
	late    bool    // a plan is made that has waited for the end of a pass
	leaving []slot  // have left with the latest pass; their blocks are not free for the next plan
	gone    int     // requests that a plan counts as running, though they have left with the pass before it
	running int     // before that pass was delivered
}

// countRequests returns what the rank must do now.
func (c *Core) countRequests() Counts {
	n := Counts{Usage: 1 - float64(c.supply.free)/float64(c.cfg.Blocks-1)}
	n.Waiting, n.Running = c.Line()
	return n
}

// Rank is a core as one of several data-parallel ranks, of which another package times the passes.
type Rank struct{ *Core }

// NewRank returns an idle rank that writes its load to told when it has planned a pass that begins at once.
func NewRank(cfg Config, told *Counts) (Rank, error) {
	c, err := New(cfg)
	if err == nil {
		c.apart.tells = told
	}
	return Rank{c}, err
}

// Counts returns what the rank must do now.
func (r Rank) Counts() Counts { return r.countRequests() }

// CountHeld returns what the rank had to do before its latest pass was delivered, with what has come since.
func (r Rank) CountHeld() Counts {
	n := r.countRequests()
	n.Running = r.apart.running
	return n
}

// TwoInFlight reports whether the rank plans a pass while the one before it runs.
func (r Rank) TwoInFlight() bool { return r.rules.TwoInFlight }

// IsAhead reports whether the rank has planned the next pass.
func (r Rank) IsAhead() bool { return r.rules.TwoInFlight && !r.next.isEmpty() }

// IsDrained reports whether the plan of the next pass, made while the latest one ran, found nothing to compute, and for how long, in ms, the
// engine sleeps after it.
func (r Rank) IsDrained() (ms int, drained bool) {
	if r.apart.drained && r.drafts.awake > 0 {
		ms = r.rules.EmptyPassMs
	}
	return ms, r.apart.drained
}

// TakeNap returns for how long, in ms, the engine sleeps before the pass that starts at now, and whether the plan of that pass found nothing
// to compute, so that the rank runs a dummy pass. The rank forgets both.
func (r Rank) TakeNap(now sim.Time) (ms int, drained bool) {
	if r.drafts.awake > now {
		ms = r.rules.EmptyPassMs
	}
	drained = r.apart.drained
	r.drafts.awake, r.apart.drained = 0, false
	return ms, drained
}

// NapTime returns for how long, in ms, the engine sleeps after it has planned nothing, with requests left or without.
func (r Rank) NapTime(left bool) int {
	if left || r.rules.EmptyPassIdle {
		return r.rules.EmptyPassMs
	}
	return 0
}

// CanWait reports whether the rank can plan a pass after the one before it has ended: not with host memory, for which two are in flight.
func (r Rank) CanWait() bool { return r.rules.TwoInFlight && r.conn == nil }

// WaitToPlan makes the pass that begins next the only one in flight, or not: PlanLate plans the one after it.
func (r Rank) WaitToPlan(waits bool) { r.apart.waits = waits }

// NoteSeats notes the seats that are taken before a pass is delivered.
func (r Rank) NoteSeats() { r.apart.running = len(r.Core.running) }

// PlanLate plans the next pass with the blocks and seats that were free before the latest was delivered. It reports whether that computes anything.
func (r Rank) PlanLate(out *scheduler.Pass) bool {
	r.events.BeginPass(out)
	r.apart.gone = r.apart.running - len(r.Core.running)
	r.apart.late = true
	r.planPass(r.next, out)
	r.apart.gone, r.apart.late = 0, false
	r.FreeLeaving()
	return !r.next.isEmpty()
}

// FreeLeaving releases the blocks of the requests that have left with a pass after which the rank waited to plan.
func (r Rank) FreeLeaving() {
	for _, s := range r.apart.leaving {
		r.Release(r.requests[s].id)
	}
	r.apart.leaving = r.apart.leaving[:0]
}

// stripLeaving takes the blocks of a request that has left with the pass before, if it would lose its place in a plan before v does.
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

// losesBefore reports whether r loses its place before v does.
func (c *Core) losesBefore(r, v *request) bool {
	if c.cfg.Scheduling == ByPriority {
		return r.rank.lessUrgent(&v.rank)
	}
	return r.order > v.order
}
