package online

import (
	"sync"
	"time"

	"github.com/replay-llm/replay/sim"
)

// instants keep what happens in real time in the order in which it was planned.
//
// On the logical clock all passes that end at an instant end before a request
// arrives at it, and all its requests are placed before a pass begins. In real
// time the parties (the driver of arrivals, the demux, the workers) wake up some
// microseconds apart, in any order. So a party that acts at an instant waits first for the parties that may act before it then,
// or earlier.
type instants struct {
	mu      sync.Mutex
	driver  sim.Time // when the driver acts next; farOff: after an action of another party
	workers []plan
	changed chan struct{} // closed when something changes; nil while no party waits
	late    int           // waits that took too long
}

// plan is what a worker does next.
type plan struct {
	end    sim.Time // when its pass ends, until the demux has carried its effects; farOff without one
	start  sim.Time // when it may begin one; farOff: when it is given a request
	handed bool     // the pass has ended and is before the demux
}

// patience is how long a party waits for the other parties at an instant.
const patience = 20 * time.Millisecond

// addWorker adds a worker, which is idle, and returns its place.
func (s *instants) addWorker() int {
	s.workers = append(s.workers, plan{farOff, farOff, false})
	return len(s.workers) - 1
}

// planArrivals notes when the driver acts next.
func (s *instants) planArrivals(at sim.Time) { s.change(func() { s.driver = at }) }

// expectDriver notes that the driver acts at an instant, if not before.
func (s *instants) expectDriver(at sim.Time) { s.change(func() { s.driver = min(s.driver, at) }) }

// expectStart notes that an idle worker was given a request at an instant.
func (s *instants) expectStart(worker int, at sim.Time) {
	s.change(func() {
		if p := &s.workers[worker]; p.end == farOff {
			p.start = min(p.start, at)
		}
	})
}

// begin notes when the pass ends that a worker has begun.
func (s *instants) begin(worker int, end sim.Time) {
	s.change(func() { s.workers[worker] = plan{end, farOff, false} })
}

// handOut notes that a worker's pass is before the demux.
func (s *instants) handOut(worker int) { s.change(func() { s.workers[worker].handed = true }) }

// carry notes that the demux has carried the effects of a worker's pass, which ended
// at an instant: the next may begin.
func (s *instants) carry(worker int, at sim.Time) {
	s.change(func() {
		if s.workers[worker].handed { // or it has begun the next, out of patience
			s.workers[worker] = plan{farOff, at, false}
		}
	})
}

// rest notes that a worker has no work.
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

// awaitStart waits until a worker may begin a pass at an instant: everything else of
// it has happened.
func (s *instants) awaitStart(worker int, at sim.Time) {
	s.expectStart(worker, at)
	s.await(func() bool { return s.driver > at && s.isOver(worker, at) })
}

// awaitArrivals waits until requests may arrive at an instant: all passes that end by then have. It reports false if
// their effects require an earlier act of the driver.
func (s *instants) awaitArrivals(at sim.Time) (may bool) {
	s.await(func() bool {
		may = s.driver >= at
		return !may || s.isOver(-1, at)
	})
	return may
}

// awaitCarry waits until the effects of a pass that ended at an instant may be carried,
// and no pass that the demux does not know ends then or before; or until there are
// other passes to choose from.
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

// isOver reports whether all passes that end by an instant are over, and none but one of a worker's
// own may begin before it.
func (s *instants) isOver(own int, at sim.Time) bool {
	for i := range s.workers {
		if p := &s.workers[i]; p.end <= at || i != own && !p.isAfter(at) {
			return false
		}
	}
	return true
}

// isAfter reports whether the worker ends no pass by an instant, and begins none before.
func (p *plan) isAfter(at sim.Time) bool { return p.end > at && p.start >= at }

// await waits until something holds, and no longer than patience.
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

// instantOf returns the instant of an event that was planned for one instant and happened at another: the planned one,
// unless that is so long ago that the machine was suspended.
func instantOf(planned, really sim.Time) sim.Time {
	if really-planned < chainable {
		return planned
	}
	return really
}
