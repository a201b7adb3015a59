package offline

import (
	"context"

	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// single is the driver of one worker (docs/rules/harness.md "The contract of an engine"). In closed loop single
// admits requests only between two passes, unlike a cluster.
type single struct {
	*run
	core     scheduler.Core
	pass     scheduler.Pass
	now      sim.Time
	quiet    sim.Time // no request arrives before this instant, unless a request ends
	arrivals []harness.Entering
	placed   router.Placement // of the latest request
}

func (s *single) runPasses(ctx context.Context) error {
	s.addDetail(&s.pass)
	for end := s.endInstant(); s.now < end; {
		if s.now >= s.quiet {
			if err := s.submitArrivals(); err != nil {
				return err
			}
		}
		if s.core.Load() == 0 {
			next, ok := s.Next(s.now, 0)
			if !ok {
				s.saveAlone(0, s.core)
				return nil
			}
			s.now = next
			continue
		}
		if err := s.checkInterrupt(ctx); err != nil {
			return err
		}
		if err := s.stepCore(end); err != nil {
			return err
		}
	}
	s.partial = s.core.Load() > 0 || !s.Done()
	s.recordProgress(s.core)
	s.saveAlone(0, s.core)
	return nil
}

// submitArrivals submits the requests that have arrived by now.
func (s *single) submitArrivals() error {
	for again := true; again; {
		again = false
		s.arrivals = s.Take(s.now, s.core.Load(), s.arrivals[:0])
		for i := range s.arrivals {
			a := &s.arrivals[i]
			ok, err := s.noteArrival(a)
			if err != nil {
				return err
			}
			if !ok {
				again = true // the rejected request does not count, another may arrive
				continue
			}
			s.placed = router.Placement{Request: a.Request, Second: router.None}
			s.Routed(scheduler.Aggregated, s.now, &s.placed)
			s.core.Submit(a.Request)
		}
	}
	if s.Feed.WantsSweep() {
		s.Feed.ForgetPrompts(s.core.Nodes)
	}
	return nil
}

// endWait ends a waiting pass at the next departure of a request from the front end. next is the first instant at
// which a request is sent or leaves the front end.
func (s *single) endWait(next sim.Time) {
	for ok := true; ok && s.pass.Waits && next < s.pass.End; next, ok = s.Next(next, s.core.Load()) {
		if s.Leaves(next) {
			s.pass.EndWait(next)
			return
		}
		s.Send(next, s.core.Load())
	}
}

// stepCore runs passes up to the next arrival or the next end of a request.
func (s *single) stepCore(end sim.Time) error {
	until := end
	next, ok := s.quiet, true
	if s.now >= next {
		next, ok = s.Next(s.now, s.core.Load())
	}
	if ok {
		until, s.quiet = min(until, next), next
	}
	if err := s.core.Step(s.now, until, &s.pass); err != nil {
		return s.Failed(0, s.now, err)
	}
	if ok && s.pass.Waits {
		s.endWait(next)
	}
	s.now = s.pass.End
	s.Passed(scheduler.Aggregated, 0, &s.pass)
	for i := range s.pass.Marks {
		if m := &s.pass.Marks[i]; m.Last {
			s.quiet = 0
			if err := s.finishRequest(m.Request, s.now); err != nil {
				return err
			}
		}
	}
	return nil
}
