package replay

import (
	"errors"
	"fmt"
	"math"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
)

// Validate refuses clusters that cannot be run. What concerns the workload is
// found when it is opened.
func (s *Spec) Validate() error {
	for _, check := range []func() error{
		s.checkCounts, s.checkArgs, s.checkPrefillLoad, s.checkMode, s.checkTopology, s.checkEngines,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkArgs refuses engine arguments that leave open which cluster is meant.
func (s *Spec) checkArgs() error {
	two := s.Prefill != nil || s.Decode != nil
	switch {
	case s.Aggregated != nil && two:
		return errors.New("engine arguments are for one pool, and there are prefill or decode engine arguments too, want one or the other")
	case !two && (s.PrefillWorkers != 1 || s.DecodeWorkers != 1):
		return fmt.Errorf("%d prefill and %d decode workers without engine arguments of their own, want both prefill and decode engine arguments",
			s.PrefillWorkers, s.DecodeWorkers)
	case s.Disaggregated() && s.Workers != 1:
		return fmt.Errorf("workers are %d beside prefill and decode engine arguments, want numbers of prefill and decode workers only", s.Workers)
	case s.Prefill == nil && s.Decode != nil:
		return errors.New("decode engine arguments without prefill engine arguments, want both")
	case s.Prefill != nil && s.Decode == nil:
		return errors.New("prefill engine arguments without decode engine arguments, want both")
	}
	return nil
}

func (s *Spec) checkCounts() error {
	for _, c := range []struct {
		name  string
		count int
	}{{"workers", s.Workers}, {"prefill workers", s.PrefillWorkers}, {"decode workers", s.DecodeWorkers}} {
		if c.count < 0 || c.count > maxWorkers {
			return fmt.Errorf("%s are %d, want 1 to %d", c.name, c.count, maxWorkers)
		}
	}
	return nil
}

// maxWorkers bounds a pool; one worker takes some memory even when idle.
const maxWorkers = 1_000_000

// checkPrefillLoad refuses an estimator that nobody asks, and questions that
// nobody answers.
func (s *Spec) checkPrefillLoad() error {
	estimator := s.PrefillLoad != engineargs.AIC{}
	asked := s.Router == router.ModeKV && s.RouterConfig != nil && s.RouterConfig.PrefillLoadModel == router.LoadAIC
	switch {
	case estimator && s.Router != router.ModeKV:
		return errors.New("an AIC estimator of prefill load, want the KV router with it")
	case estimator && !asked:
		return errors.New(`an AIC estimator of prefill load, want a router configuration with router_prefill_load_model "aic"`)
	case asked && !estimator:
		return errors.New(`router_prefill_load_model is "aic", want the AIC backend, system and model path with it`)
	case asked:
		return errors.New(`router_prefill_load_model is "aic": this program holds no AIC estimator, want "none"`)
	}
	return nil
}

func (s *Spec) checkMode() error {
	switch {
	case !(s.Until >= 0) || math.IsInf(float64(s.Until), 0):
		return fmt.Errorf("the end is at %v ms, want a finite instant >= 0", float64(s.Until))
	case s.Mode == loadgen.Concurrency && s.MaxInFlight < 1:
		return fmt.Errorf("requests in flight are %d, want at least 1", s.MaxInFlight)
	case s.Mode == loadgen.Trace && s.Trace != nil && !s.Trace.Detect && s.Trace.Format == Agentic:
		return errors.New("an agentic trace has no timestamps, want concurrency mode")
	}
	return nil
}

func (s *Spec) checkTopology() error {
	if s.Disaggregated() {
		return s.checkTwoPools()
	}
	pool := s.Pools()[0]
	switch {
	case s.Router == router.ModeKV && s.Workers <= 1 && len(s.Scale) == 0:
		return fmt.Errorf("workers are %d, want at least 2 with the KV router", s.Workers)
	case s.Workers < 1:
		return fmt.Errorf("workers are %d, want at least 1", s.Workers)
	case pool.Role != scheduler.Aggregated:
		return fmt.Errorf("worker_type is %q, want %q in a cluster of one pool", pool.Role, scheduler.Aggregated)
	case pool.DPSize != 1:
		return fmt.Errorf("dp_size is %d, want 1", pool.DPSize)
	}
	return nil
}

func (s *Spec) checkTwoPools() error {
	switch {
	case s.PrefillWorkers < 1:
		return fmt.Errorf("prefill workers are %d, want at least 1", s.PrefillWorkers)
	case s.DecodeWorkers < 1:
		return fmt.Errorf("decode workers are %d, want at least 1", s.DecodeWorkers)
	case s.Prefill.Role != scheduler.Prefill:
		return fmt.Errorf("prefill engine arguments: worker_type is %q, want %q", s.Prefill.Role, scheduler.Prefill)
	case s.Decode.Role != scheduler.Decode:
		return fmt.Errorf("decode engine arguments: worker_type is %q, want %q", s.Decode.Role, scheduler.Decode)
	case s.Prefill.DPSize != 1:
		return fmt.Errorf("prefill engine arguments: dp_size is %d, want 1", s.Prefill.DPSize)
	case s.Decode.DPSize != 1:
		return fmt.Errorf("decode engine arguments: dp_size is %d, want 1", s.Decode.DPSize)
	case s.Prefill.BlockTokens != s.Decode.BlockTokens:
		return fmt.Errorf("block_size is %d for prefill and %d for decode engines, want the same",
			s.Prefill.BlockTokens, s.Decode.BlockTokens)
	}
	return nil
}

// checkEngines refuses engines that cannot be built.
func (s *Spec) checkEngines() error {
	for _, pool := range s.Pools() {
		n := pool.BlockTokens
		if pool.Engine == engineargs.VLLM && (n < 2 || n > 1024 || n&(n-1) != 0) {
			return fmt.Errorf("block_size is %d, want a power of two from 2 to 1024 for vllm", n)
		}
		if pool.AIC.Backend != "" {
			return fmt.Errorf("aic_backend is %q: this program holds no AIC estimator, want planner_profile_data or neither", pool.AIC.Backend)
		}
	}
	return nil
}
