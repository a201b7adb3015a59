package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/router/policy"
)

// mostRecycled is the maximum number of requests in all rounds of a workload.
const mostRecycled = 1 << 22

// checkRecycle rejects settings that are not supported with a recycled workload.
func (s *Spec) checkRecycle() error {
	switch {
	case !s.Recycle:
		return nil
	case s.Mode != loadgen.Concurrency:
		return errors.New("a workload is recycled in open loop, where requests arrive at their own times, use closed loop")
	case s.Window.To == 0:
		return errors.New("a workload is recycled without end, must be a window with an end")
	case s.Until > 0:
		return errors.New("a recycled workload and an early end of the replay are mutually exclusive")
	case s.Compat:
		return errors.New("a recycled workload is not supported with the results of the reference")
	case s.Warm != nil:
		return errors.New("a recycled workload is not supported with caches of another replay: their blocks could be mistaken for blocks of its rounds")
	case policy.Is[*policy.Process](s.Router):
		return errors.New("a workload is recycled with a policy in a program, and replayed more than once to find how often, must be a policy of this program")
	}
	return nil
}

// recycle returns a workload with enough rounds to last until the end of the window. recycle replays the workload
// with more and more rounds, until requests are left at the end.
func (s *Spec) recycle(ctx context.Context, workload *loadgen.Workload, streams Streams) (*loadgen.Workload, error) {
	if streams.Scaler != nil {
		return nil, errors.New("a custom scaler is not supported with a recycled workload, which is replayed more than once")
	}
	if err := s.refuseScalers("a replay with a recycled workload"); err != nil {
		return nil, err
	}
	for rounds := 2; ; {
		if n := rounds * len(workload.Turns); n > mostRecycled {
			return nil, fmt.Errorf("the workload is recycled up to %.0f ms: %d rounds of %d requests, must be at most %d requests in all, of a longer workload or a shorter window",
				float64(s.Window.To), rounds, len(workload.Turns), mostRecycled)
		}
		w := loadgen.Recycle(workload, rounds)
		result, err := offline.Run(ctx, s.offlineConfig(w, Streams{}))
		if err != nil {
			return nil, err
		}
		if !result.RanOut {
			return w, nil
		}
		rounds = moreRounds(rounds, float64(result.Collector.LastArrival()/s.Window.To))
	}
}

// moreRounds returns the number of rounds to try next, if the given number of rounds has lasted for a share of the
// time.
func moreRounds(rounds int, share float64) int {
	times := min(1.2/max(share, 0.05), 16)
	return max(rounds+1, int(float64(rounds)*times)+1)
}
