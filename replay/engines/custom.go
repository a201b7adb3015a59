package engines

import (
	"errors"
	"fmt"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/custom"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

// CheckCustom rejects clusters with workers that cannot run a custom engine.
func (t *Topology) CheckCustom() error {
	switch {
	case t.Compat:
		return errors.New("a custom engine and the reference's rules are mutually exclusive")
	case t.Disaggregated():
		return errors.New("a custom engine is not supported in prefill and decode pools, must be one pool")
	}
	for _, k := range t.Entry().Kinds() {
		if why := customFault(&k.Engine); why != "" {
			if k.Name != "" {
				why = k.Name + ": " + why
			}
			return fmt.Errorf("an engine of the caller's with engine arguments that it has no use for: %s", why)
		}
	}
	return nil
}

// customFault returns the argument that is not supported with a custom engine, "" if there is none.
func customFault(a *engineargs.Args) string {
	switch {
	case a.Engine != engineargs.VLLM:
		return fmt.Sprintf("engine_type %q, must be %q, since it has KV blocks of that engine", a.Engine, engineargs.VLLM)
	case a.DPSize > 1:
		return fmt.Sprintf("dp_size %d, must be 1", a.DPSize)
	case a.Speculative != nil:
		return "drafts, must be none"
	case a.Windows.Given():
		return "layers with sliding windows, must be none"
	case a.G2.Asked():
		return "host memory behind the KV blocks, must be none"
	case a.Warmup != vllm.Warmup{}:
		return "a first pass that takes longer, must be none"
	}
	return ""
}

// customOptions returns the options of a custom engine for a worker.
func (s *Stage) customOptions(id sim.WorkerID) custom.Options {
	c := s.vllmConfig()
	return custom.Options{
		Worker: id, Blocks: c.Blocks, BlockTokens: c.BlockTokens, MaxSeqs: c.MaxSeqs, MaxBatchedTokens: c.MaxBatchedTokens,
		ChunkedPrefill: c.ChunkedPrefill, PrefixCaching: c.PrefixCaching, Seed: s.Seed,
	}
}

// customCore returns a core with a custom engine.
func (s *Stage) customCore(id sim.WorkerID) (scheduler.Core, error) {
	o := s.customOptions(id)
	engine, err := s.Custom(o)
	if err == nil && engine == nil {
		err = errors.New("there is none, must be one")
	}
	if err != nil {
		return nil, fmt.Errorf("the engine of worker %d: %w", id, err)
	}
	return custom.New(custom.Config{Options: o, Clock: s.Clock, Tree: s.Tree, Told: s.Capture == scheduler.CaptureResidency}, engine), nil
}
