package replay

import (
	"context"
	"io"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/offline"
)

// Streams are what a run reads and tells besides its result.
type Streams struct {
	Stdin io.Reader // read when the trace is "-"
	// Warn, when not nil, is told once of whatever is remarkable in the trace.
	Warn func(string)
	// Progress, when not nil, is told now and then how many of the requests have
	// finished.
	Progress func(finished, requests int)
	// Opened, when not nil, is shown the workload before it is replayed.
	Opened func(*loadgen.Workload)
	// Observer, when not nil, is shown everything that happens.
	Observer harness.Observer
}

// Run replays s to its end. It stops early, with ctx's error, when ctx is done.
func (s *Spec) Run(ctx context.Context, streams Streams) (*harness.Result, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	workload, err := s.Open(ctx, streams)
	if err != nil {
		return nil, err
	}
	return s.replay(ctx, workload, streams)
}

// RunOn is Run on a workload that Open has read before. Many replays may share
// one: nothing in it changes.
func (s *Spec) RunOn(ctx context.Context, workload *loadgen.Workload, streams Streams) (*harness.Result, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return s.replay(ctx, workload, streams)
}

func (s *Spec) replay(ctx context.Context, workload *loadgen.Workload, streams Streams) (*harness.Result, error) {
	if streams.Opened != nil {
		streams.Opened(workload)
	}
	c := s.Config(workload)
	c.Observer = streams.Observer
	if streams.Progress != nil {
		c.Progress = func(finished int) { streams.Progress(finished, len(workload.Turns)) }
	}
	result, err := offline.Run(ctx, c)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return result, err
}

// Config is the replay of a workload that s asks for, with nobody watching.
func (s *Spec) Config(workload *loadgen.Workload) offline.Config {
	return offline.Config{Config: s.config(workload), Until: s.Until, Reject: s.Reject}
}

// config is what the replay of a workload depends on, whatever moves its time.
func (s *Spec) config(workload *loadgen.Workload) harness.Config {
	return harness.Config{
		Topology: s.Topology, Workload: workload,
		Admission: loadgen.Admission{Mode: s.Mode, MaxInFlight: s.MaxInFlight, Speedup: s.Speedup},
	}
}
