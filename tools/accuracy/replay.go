package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Scheduler profiles for vLLM engines.
const (
	ownRules       = "vllm-0.19"
	referenceRules = "reference"
)

// replay returns the times of a replay of the server's requests. The pass times come from a source.
func (s *server) replay(passes timing.Source, rules, dir string) (metrics, error) {
	trace := filepath.Join(dir, "trace.jsonl")
	if err := s.writeTrace(trace); err != nil {
		return metrics{}, err
	}
	args, err := s.engineArgs(passes, rules)
	if err != nil {
		return metrics{}, err
	}
	topology := replay.Topology{Pools: replay.OnePool(args, s.pods), Router: policy.RoundRobin}
	if s.pods > 1 {
		topology.Router = policy.KV
	}
	spec := replay.Spec{Trace: &replay.Trace{Path: trace, BlockTokens: s.requests[0].block}, Speedup: 1, Topology: topology}
	if s.inFlight > 0 {
		spec.Mode, spec.MaxInFlight = loadgen.Concurrency, s.inFlight
	}
	spec.Compat = s.engine == sglangEngine && rules == referenceRules
	result, err := spec.Run(context.Background(), replay.Streams{})
	if err != nil {
		return metrics{}, err
	}
	r := result.Report
	if r.Completed != len(s.requests) {
		return metrics{}, fmt.Errorf("%d of %d requests were completed", r.Completed, len(s.requests))
	}
	of := func(d *collector.Distribution) metric { return metric{d.Mean, d.Median, d.P99} }
	return metrics{ttft: of(&r.TTFT), tpot: of(&r.TPOT), itl: of(&r.ITL), e2e: of(&r.E2E)}, nil
}

// endless multiplies the pool of an SGLang server with the reference's rules. With a smaller pool these rules leak
// blocks until the replay stalls.
const endless = 100

// engineArgs returns the arguments of the server's engines.
func (s *server) engineArgs(passes timing.Source, rules string) (engineargs.Args, error) {
	fit, budget, err := s.fit()
	if err != nil {
		return engineargs.Args{}, err
	}
	all := map[string]any{
		"engine_type": s.engine, "num_gpu_blocks": budget.Blocks, "block_size": fit.BlockTokens,
		"max_num_seqs": fit.MaxSeqs,
	}
	if s.engine == sglangEngine && rules == referenceRules {
		all["num_gpu_blocks"] = endless * budget.Blocks
	}
	if s.engine == vllmEngine {
		maps.Copy(all, map[string]any{"max_num_batched_tokens": fit.MaxBatch, "scheduler_profile": rules})
	}
	text, err := json.Marshal(all)
	if err != nil {
		return engineargs.Args{}, err
	}
	a, err := engineargs.Parse(text, engineargs.Options{})
	a.PassTimes = passes
	return a, err
}

// writeTrace writes the requests as a Mooncake trace.
func (s *server) writeTrace(path string) error {
	text := &bytes.Buffer{}
	if s.turns != nil {
		if _, err := s.turns.WriteTrace(text, s.turns.Prompts); err != nil {
			return err
		}
		return os.WriteFile(path, text.Bytes(), 0o600)
	}
	encoder := json.NewEncoder(text)
	for _, r := range s.requests {
		if err := encoder.Encode(map[string]any{"timestamp": r.arrival, "input_length": r.input, "output_length": r.output, "hash_ids": r.hashes}); err != nil {
			return err
		}
	}
	return os.WriteFile(path, text.Bytes(), 0o600)
}
