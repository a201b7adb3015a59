package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/online"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
)

// Live configures a replay in real time.
type Live struct {
	// TwoPools allows separate prefill and decode workers. The reference supports two pools only on a logical clock.
	TwoPools bool
	online.Pace
}

// RunLive replays s in real time, on live workers of this process. If ctx ends with requests in flight, the result
// covers the time until then.
func (s *Spec) RunLive(ctx context.Context, streams Streams, live Live) (*harness.Result, error) {
	if err := s.validateLive(&live); err != nil {
		return nil, err
	}
	c, err := s.openLive(ctx, streams, &live)
	if err != nil {
		return nil, err
	}
	return online.Run(ctx, c)
}

// Drive replays s in real time on a target that newTarget makes, instead of workers of this process. The target
// handles the workers and routers of s.
func (s *Spec) Drive(ctx context.Context, streams Streams, live Live, newTarget func(*online.Recorder, *online.Clock) (online.Target, error)) (*harness.Result, error) {
	c, err := s.openLive(ctx, streams, &live)
	if err != nil {
		return nil, err
	}
	return online.Drive(ctx, c, newTarget)
}

// openLive opens the workload and returns the configuration of a real-time replay.
func (s *Spec) openLive(ctx context.Context, streams Streams, live *Live) (online.Config, error) {
	if streams.Engine != nil {
		return online.Config{}, errors.New("a custom engine is not supported in real time: use a replay on a logical clock")
	}
	workload, err := s.Open(ctx, streams)
	if err != nil {
		return online.Config{}, err
	}
	return online.Config{Config: s.harnessConfig(workload, streams), Pace: live.Pace, Warn: streams.Warn}, nil
}

// validateLive rejects settings that are not supported in real time. A KV router with a single worker is supported.
func (s *Spec) validateLive(live *Live) error {
	if err := cmp.Or(s.checkMode(), s.refuseStream("a replay in real time"), s.Topology.Validate()); err != nil {
		return err
	}
	text, isText := s.Router.(*policy.Text)
	switch {
	case s.Disaggregated() && !live.TwoPools:
		return errors.New("prefill and decode workers in real time, must be one pool unless two are requested")
	case !s.Disaggregated() && live.TwoPools:
		return errors.New("two pools in real time, require prefill and decode engine arguments")
	case len(s.Scale) > 0:
		return errors.New("a changing number of workers is not supported in real time: use a fixed number")
	case len(s.Changes) > 0:
		return errors.New("changes are not supported in real time: use a replay on a logical clock")
	case s.Autoscales():
		return errors.New("an autoscaler is not supported in real time: use a replay on a logical clock")
	case s.Admission != nil:
		return errors.New("an admission is not supported in real time: use a replay on a logical clock")
	case isText && slices.ContainsFunc(text.LooksAt(), policy.IsMetric):
		return errors.New("a router policy that reads reports of workers is not supported in real time: use a replay on a logical clock")
	case s.Signals != router.Signals{} || isText && text.Signals != router.Signals{}:
		return errors.New("signal delays are not supported in real time")
	case policy.Is[*policy.Process](s.Router):
		return errors.New("a policy process is not supported in real time: use a replay on a logical clock")
	case s.Faults != nil:
		return errors.New("faults are not supported in real time: use a replay on a logical clock")
	case s.Client != nil:
		return errors.New("clients with timeouts and retries are not supported in real time: use a replay on a logical clock")
	case s.Window.IsSet():
		return errors.New("a window is not supported in real time: use a replay on a logical clock")
	case s.Until > 0:
		return fmt.Errorf("an end at %v ms of the logical clock is not supported in real time: use a deadline", float64(s.Until))
	case s.Reject:
		return errors.New("rejected requests are not supported in real time: use an error for requests that do not fit")
	case live.Deadline < 0:
		return fmt.Errorf("the deadline is %v, must be more than 0", live.Deadline)
	}
	return nil
}
