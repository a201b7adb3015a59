package plan

import (
	"context"
	"io"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/router"
)

// Open reads or makes the workload of spec, as spec.Run would.
func Open(ctx context.Context, spec replay.Spec, stdin io.Reader) (*loadgen.Workload, error) {
	// The run goes only as far as to the workload: one worker is enough to let
	// it begin, and it is told to end as soon as the workload is there.
	if !spec.Disaggregated() {
		spec.Workers = 1
	}
	spec.Scale, spec.Router, spec.RouterConfig, spec.PrefillLoad = nil, router.ModeRoundRobin, nil, engineargs.AIC{}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var opened *loadgen.Workload
	_, err := spec.Run(ctx, replay.Streams{Stdin: stdin, Opened: func(w *loadgen.Workload) {
		opened = w
		cancel()
	}})
	if opened != nil {
		return opened, nil
	}
	return nil, err
}

// Replay runs spec on a workload that has been opened before. Many replays may
// share one: nothing in it changes. The result is that of spec.Run.
func Replay(ctx context.Context, spec *replay.Spec, w *loadgen.Workload) (*offline.Result, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	result, err := offline.Run(ctx, config(spec, w))
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return result, err
}

// config is the replay of w that spec asks for.
func config(s *replay.Spec, w *loadgen.Workload) offline.Config {
	c := offline.Config{
		Workload: w,
		Admission: loadgen.Admission{
			Mode: s.Mode, MaxInFlight: s.MaxInFlight, Speedup: s.Speedup, Disaggregated: s.Disaggregated(),
		},
		Router: s.Router, RouterConfig: router.DefaultConfig(),
		Seed: s.Seed, Compat: s.Compat,
		Scale: s.Scale, Until: s.Until, Reject: s.Reject,
	}
	if s.RouterConfig != nil {
		c.RouterConfig = *s.RouterConfig
	}
	pools := s.Pools()
	if s.Disaggregated() {
		c.Prefill = &offline.Pool{Engine: pools[0], Count: s.PrefillWorkers}
		c.Decode = &offline.Pool{Engine: pools[1], Count: s.DecodeWorkers}
	} else {
		c.Workers = offline.Pool{Engine: pools[0], Count: s.Workers}
	}
	return c
}
