package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// steps is what a planner has seen: a state for every advance, the traffic for
// every drain, as JSON in the words of the reference, and the report.
type steps struct {
	seen   []any
	report *collector.Report
	err    error // why there is no report
}

// runHere runs the schedule with this program.
func (p *schedule) runHere(ctx context.Context) *steps {
	s, err := p.runCalls(ctx)
	if err != nil {
		return &steps{err: err}
	}
	return s
}

func (p *schedule) runCalls(ctx context.Context) (*steps, error) {
	spec, err := p.buildSpec()
	if err != nil {
		return nil, err
	}
	s, err := spec.Steps(ctx, replay.Streams{})
	if err != nil {
		return nil, err
	}
	out := &steps{}
	for _, c := range p.Calls {
		switch c.Do {
		case "advance":
			state, err := s.AdvanceTo(ctx, sim.Time(c.Until))
			if err != nil {
				return nil, err
			}
			out.seen = append(out.seen, stateOf(state))
		case "scale":
			if err := s.Scale(c.Prefill, c.Decode); err != nil {
				return nil, err
			}
		case "drain":
			out.seen = append(out.seen, trafficOf(s.Traffic()))
		}
	}
	result, err := s.Finish()
	if err != nil {
		return nil, err
	}
	out.report = result.Report
	return out, nil
}

func (p *schedule) buildSpec() (replay.Spec, error) {
	c := replay.Spec{
		Trace: &replay.Trace{Path: p.Trace, Format: replay.Mooncake, BlockTokens: p.TraceBlock},
		Mode:  loadgen.Trace, Speedup: p.Speedup, Topology: replay.Topology{Seed: 42, Compat: true},
	}
	var err error
	pools := make([]replay.Pool, len(p.Engines))
	for i, text := range p.Engines {
		pools[i].Count = p.Workers[i]
		if pools[i].Engine, err = engineargs.Parse([]byte(text), engineargs.Options{Compat: true}); err != nil {
			return c, err
		}
	}
	if len(pools) == 2 {
		pools = replay.TwoPools(pools[0], pools[1])
	}
	c.Pools = pools
	if c.Router, err = policy.Parse(p.RouterMode); err != nil {
		return c, err
	}
	if p.RouterConfig != "" {
		config, err := router.ParseConfig([]byte(p.RouterConfig))
		if err != nil {
			return c, err
		}
		c.RouterConfig = &config
	}
	return c, nil
}

func stateOf(s offline.State) any {
	return map[string]any{
		"now_ms": float64(s.Now), "is_done": s.Done,
		"active_prefill_count": float64(s.Prefill.Active), "total_prefill_count": float64(s.Prefill.Total),
		"active_decode_count": float64(s.Decode.Active), "total_decode_count": float64(s.Decode.Total),
		"prefill_fpm_snapshots": passesOf(s.Prefill.Passes), "decode_fpm_snapshots": passesOf(s.Decode.Passes),
	}
}

func passesOf(snapshots []scheduler.Snapshot) []any {
	out := []any{}
	for _, s := range snapshots {
		out = append(out, map[string]any{
			"worker_id": float64(s.Worker), "wall_time": s.Seconds,
			"num_prefill_requests": float64(s.Prefill.Requests), "sum_prefill_tokens": float64(s.Prefill.Sum),
			"var_prefill_length": s.Prefill.Variance, "sum_prefill_kv_tokens": float64(s.PrefillCached),
			"num_decode_requests": float64(s.Decode.Requests), "sum_decode_kv_tokens": float64(s.Decode.Sum),
			"var_decode_kv_tokens": s.Decode.Variance,
			"num_queued_prefill":   float64(s.QueuedPrefill.Requests), "sum_queued_prefill_tokens": float64(s.QueuedPrefill.Sum),
			"var_queued_prefill_length": s.QueuedPrefill.Variance,
			"num_queued_decode":         float64(s.QueuedDecode.Requests), "sum_queued_decode_kv_tokens": float64(s.QueuedDecode.Sum),
			"var_queued_decode_kv_tokens": s.QueuedDecode.Variance,
		})
	}
	return out
}

func trafficOf(t offline.Traffic) any {
	return map[string]any{
		"duration_s": t.Seconds, "num_req": float64(t.Requests), "avg_isl": t.MeanISL, "avg_osl": t.MeanOSL,
		"avg_ttft_ms": float64(t.MeanTTFT), "avg_itl_ms": float64(t.MeanITL), "avg_kv_hit_rate": t.MeanReuse,
	}
}

// readSteps reads what the reference wrote.
func readSteps(path string) (*steps, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Seen   []any           `json:"seen"`
		Report json.RawMessage `json:"report"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	report, err := collector.ReadJSON(bytes.NewReader(file.Report))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &steps{seen: file.Seen, report: report}, nil
}
