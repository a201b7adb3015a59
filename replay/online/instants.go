package online

import (
	"sync"
	"time"

	"github.com/replay-llm/replay/sim"
)

// instants keeps events in real time in their planned order.
//
// On the logical clock, all passes that end at an instant end before a request arrives at it, and all its requests
// are placed before a pass begins. In real time, the driver, the demux and the workers wake up some microseconds
// apart, in any order. Each party therefore first waits for all actions of the other parties that must precede its
// action at that instant.
type instants struct {
	mu      sync.Mutex
	driver  sim.Time // next act of the driver; farOff: after an action of another party
	workers []plan
	changed chan struct{} // closed at the next change; nil while no party waits
	late    int           // number of waits that timed out
}

// plan is the next action of a worker.
type plan struct {
	end    sim.Time // end of its pass, until the demux has applied its effects; farOff without a pass
	start  sim.Time // earliest begin of a pass; farOff: after it gets a request
	handed bool     // the pass has ended and is queued for the demux
}

// patience is the timeout of a wait for other parties at an instant.
const patience = 20 * time.Millisecond

// addWorker adds an idle worker and returns its index.
func (s *instants) addWorker() int {
	s.workers = append(s.workers, plan{farOff, farOff, false})
	return len(s.workers) - 1
}

// planArrivals sets the next act of the driver.
func (s *instants) planArrivals(at sim.Time) { s.change(func() { s.driver = at }) }

// expectDriver sets an act of the driver at an instant, unless an earlier act is set.
func (s *instants) expectDriver(at sim.Time) { s.change(func() { s.driver = min(s.driver, at) }) }

// expectStart records that an idle worker got a request at an instant.
func (s *instants) expectStart(worker int, at sim.Time) {
	s.change(func() {
		if p := &s.workers[worker]; p.end == farOff {
			p.start = min(p.start, at)
		}
	})
}

// begin records that a worker has begun a pass with the given end.
func (s *instants) begin(worker int, end sim.Time) {
	s.change(func() { s.workers[worker] = plan{end, farOff, false} })
}

// handOut records that a worker's pass is queued for the demux.
func (s *instants) handOut(worker int) { s.change(func() { s.workers[worker].handed = true }) }

// carry records that the demux has applied the effects of a worker's pass that ended at an instant. The next pass may
// begin.
func (s *instants) carry(worker int, at sim.Time) {
	s.change(func() {
		if s.workers[worker].handed { // otherwise it has begun the next pass after a timeout
			s.workers[worker] = plan{farOff, at, false}
		}
	})
}

// rest records that a worker has no work.
func (s *instants) rest(worker int) {
	s.change(func() { s.workers[worker] = plan{farOff, farOff, false} })
}

func (s *instants) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// awaitStart waits until a worker may begin a pass at an instant: all other actions of that instant are done.
func (s *instants) awaitStart(worker int, at sim.Time) {
	s.expectStart(worker, at)
	s.await(func() bool { return s.driver > at && s.isOver(worker, at) })
}

// awaitArrivals waits until requests may arrive at an instant: all passes that end by then have ended. awaitArrivals
// reports false if their effects require an earlier act of the driver.
func (s *instants) awaitArrivals(at sim.Time) (may bool) {
	s.await(func() bool {
		may = s.driver >= at
		return !may || s.isOver(-1, at)
	})
	return may
}

// awaitCarry waits until the effects of a pass that ended at an instant may be applied: no pass that the demux does
// not know ends by then. awaitCarry also returns if other passes are available.
func (s *instants) awaitCarry(at sim.Time, others func() bool) {
	s.await(func() bool {
		if others() {
			return true
		}
		for i := range s.workers {
			if p := &s.workers[i]; !p.handed && !p.isAfter(at) {
				return false
			}
		}
		return s.driver >= at
	})
}

// isOver reports whether all passes that end by an instant have ended, and no worker except own may begin a pass
// before it.
func (s *instants) isOver(own int, at sim.Time) bool {
	for i := range s.workers {
		if p := &s.workers[i]; p.end <= at || i != own && !p.isAfter(at) {
			return false
		}
	}
	return true
}

// isAfter reports whether the worker ends no pass by an instant and begins none before.
func (p *plan) isAfter(at sim.Time) bool { return p.end > at && p.start >= at }

// await waits until holds returns true, up to patience.
func (s *instants) await(holds func() bool) {
	var limit <-chan time.Time
	for {
		s.mu.Lock()
		if holds() {
			s.mu.Unlock()
			return
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		if limit == nil {
			timer := time.NewTimer(patience)
			defer timer.Stop()
			limit = timer.C
		}
		select {
		case <-changed:
		case <-limit:
			s.change(func() { s.late++ })
			return
		}
	}
}

// instantOf returns the planned instant of an event. If the event happened much later, because the machine was
// suspended, it returns the real instant.
func instantOf(planned, really sim.Time) sim.Time {
	if really-planned < chainable {
		return planned
	}
	return really
}
