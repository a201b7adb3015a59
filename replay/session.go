package replay

import (
	"context"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Session is one replay with all that is to be left of it. It opens its outputs,
// lets them look on, runs the replay and has them written, in their order.
type Session struct {
	Spec    Spec
	Streams Streams // without an observer: those are of the outputs
	Outputs []Output

	// Drive runs the replay in place of Spec.Run, in real time. What there is of it
	// is written even when its context ends.
	Drive func(context.Context, *Spec, Streams) (*harness.Result, error)
	// Relay, when not nil, returns an observer that shows another one everything,
	// in its own time, and what ends it.
	Relay func(harness.Observer) (relayed harness.Observer, end func())

	Workload *loadgen.Workload // once it is open
	Result   *harness.Result   // once the replay is over
}

// Output is something that a replay leaves, or that looks at it. NoOutput does
// nothing of all this.
type Output interface {
	// Open is called before the workload is read. It refuses what cannot be
	// written, and may put another reader in the place of standard input.
	Open(s *Session) error
	// Around calls run, which replays, and may do something before and after it.
	// The first output is the closest to the replay.
	Around(run func() error) error
	// Observers returns who is shown the replay. Those with a method Grow are told
	// by it how many requests there are.
	Observers() []harness.Observer
	// Add adds to the report what the output knows.
	Add(s *Session) error
	// Write writes the output.
	Write(ctx context.Context, s *Session) error
}

// NoOutput is an Output that does nothing. Outputs embed it.
type NoOutput struct{}

// Open does nothing.
func (NoOutput) Open(*Session) error { return nil }

// Around replays.
func (NoOutput) Around(run func() error) error { return run() }

// Observers returns none.
func (NoOutput) Observers() []harness.Observer { return nil }

// Add does nothing.
func (NoOutput) Add(*Session) error { return nil }

// Write does nothing.
func (NoOutput) Write(context.Context, *Session) error { return nil }

// Run carries out the session.
func (s *Session) Run(ctx context.Context) error {
	for _, o := range s.Outputs {
		if err := o.Open(s); err != nil {
			return err
		}
	}
	step := func() error { return s.runWatched(ctx) }
	for _, o := range s.Outputs {
		inner := step
		step = func() error { return o.Around(inner) }
	}
	if err := step(); err != nil {
		return err
	}
	for _, o := range s.Outputs {
		if err := o.Add(s); err != nil {
			return err
		}
	}
	if s.Drive != nil {
		ctx = context.WithoutCancel(ctx)
	}
	for _, o := range s.Outputs {
		if err := o.Write(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// runWatched runs the replay, shown to the observers of all outputs.
func (s *Session) runWatched(ctx context.Context) (err error) {
	var all observers
	for _, o := range s.Outputs {
		all = append(all, o.Observers()...)
	}
	streams := s.Streams
	streams.Opened = func(w *loadgen.Workload) {
		s.Workload = w
		all.growAll(len(w.Turns))
		if s.Streams.Opened != nil {
			s.Streams.Opened(w)
		}
	}
	if len(all) > 0 {
		streams.Observer = all
		if s.Relay != nil {
			relayed, end := s.Relay(all)
			defer end()
			streams.Observer = relayed
		}
	}
	if s.Drive != nil {
		s.Result, err = s.Drive(ctx, &s.Spec, streams)
	} else {
		s.Result, err = s.Spec.Run(ctx, streams)
	}
	return err
}

// observers are shown a run one after the other.
type observers []harness.Observer

// growAll makes room in those that remember requests for so many of them.
func (all observers) growAll(requests int) {
	for _, o := range all {
		if o, ok := o.(interface{ Grow(requests int) }); ok {
			o.Grow(requests)
		}
	}
}

func (all observers) Arrived(q *sim.Request, at sim.Time) {
	for _, o := range all {
		o.Arrived(q, at)
	}
}

func (all observers) Routed(stage scheduler.Role, at sim.Time, p *router.Placement) {
	for _, o := range all {
		o.Routed(stage, at, p)
	}
}

func (all observers) Handoff(id sim.RequestID, from, to sim.Time) {
	for _, o := range all {
		o.Handoff(id, from, to)
	}
}

func (all observers) Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	for _, o := range all {
		o.Pass(stage, w, p)
	}
}
