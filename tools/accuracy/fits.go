package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/replay/collector"
)

// judgeFits returns the table of what replay calibrate fits to one run of a server, held to
// requests that it has not seen.
func judgeFits(ctx context.Context, servers []*server, shared, dir string) (string, error) {
	t := &strings.Builder{}
	fmt.Fprintln(t, "| Fitted to | Judged on, held out | Rules | TPOT: mean / p50 / p99 | TTFT: mean / p50 / p99 | E2E: mean / p50 / p99 |")
	fmt.Fprintln(t, "| --- | --- | --- | --- | --- | --- |")
	for _, s := range servers {
		var rows []string
		var err error
		switch s.fitted {
		case "":
			continue
		case halves:
			rows, err = s.judgeHalves(ctx, shared)
		default:
			rows, err = s.judgeLoads(ctx, servers, dir)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", s.name, err)
		}
		for _, row := range rows {
			fmt.Fprintln(t, row)
		}
	}
	return t.String(), nil
}

// judgeHalves fits to the first half of a run's requests, by the rules of vLLM and by those
// of the reference, and judges by the second.
func (s *server) judgeHalves(ctx context.Context, shared string) ([]string, error) {
	dir := filepath.Join(shared, s.path)
	m, err := calibrate.Read(dir, 0)
	if err != nil {
		return nil, err
	}
	prompts, err := calibrate.ReadPrompts(promptsOf(dir), 16)
	if err != nil {
		return nil, err
	}
	var rows []string
	for _, rules := range []string{ownRules, referenceRules} {
		r, err := calibrate.Run(ctx, m, calibrate.Options{Holdout: 0.5, Prompts: prompts, Reference: rules == referenceRules})
		if err != nil {
			return nil, err
		}
		for _, c := range r.Checks {
			if !c.HeldOut || !strings.HasPrefix(c.Fitted, "first") {
				continue
			}
			off := map[string]string{}
			for _, e := range c.Errors {
				off[e.Metric] = fmt.Sprintf("%+.1f / %+.1f / %+.1f %%", 100*e.Mean, 100*e.P50, 100*e.P99)
			}
			rows = append(rows, fmt.Sprintf("| %s, %s | %s of the same run | %s | %s | %s%s | %s |", s.name, c.Fitted, c.Judged, rules, off["TPOT"], off["TTFT"], s.mark(), off["E2E"]))
		}
	}
	return rows, nil
}

// judgeLoads fits to one run and judges by all others of the server, at other loads.
func (s *server) judgeLoads(ctx context.Context, servers []*server, dir string) ([]string, error) {
	run := filepath.Join(dir, "run")
	if err := s.writeRun(run); err != nil {
		return nil, err
	}
	m, err := calibrate.Read(run, 0)
	if err != nil {
		return nil, err
	}
	r, err := calibrate.Run(ctx, m, calibrate.Options{})
	if err != nil {
		return nil, err
	}
	profile := filepath.Join(dir, "profile.json")
	if err := collector.WriteFile(profile, r.Profile.Write); err != nil {
		return nil, err
	}
	var rows []string
	for _, other := range servers {
		if other.fitted != s.fitted || other == s {
			continue
		}
		got, err := other.replay(profile, ownRules, dir)
		if err != nil {
			return nil, err
		}
		x := other.measure()
		rows = append(rows, fmt.Sprintf("| %s | %s: another load | %s | %s | %s%s | %s |", s.name, other.name, ownRules, got.tpot.off(&x.tpot), got.ttft.off(&x.ttft), other.mark(), got.e2e.off(&x.e2e)))
	}
	return rows, nil
}

// writeRun writes the requests as a run directory of replay calibrate. A client's time at
// which it sent a request stands for that at which the engine took it in.
func (s *server) writeRun(dir string) error {
	fit, budget, err := s.fit()
	if err != nil {
		return err
	}
	requests, meta := &strings.Builder{}, map[string]any{"engine_kwargs": map[string]any{
		"max_num_seqs": fit.MaxSeqs, "max_num_batched_tokens": fit.MaxBatch, "block_size": fit.BlockTokens,
		"num_gpu_blocks": budget.Blocks, "enforce_eager": fit.Eager(), "async_scheduling": true,
	}}
	encoder := json.NewEncoder(requests)
	for i, r := range s.requests {
		at := r.arrival / 1000
		err = errors.Join(err, encoder.Encode(map[string]any{
			"request_id": fmt.Sprint(i), "input_toks": r.input, "output_toks": r.output, "arrival_time": at, "queued_ts": at,
			"first_token_ts": at + r.ttft/1000, "last_token_ts": at + r.e2e/1000,
		}))
	}
	text, e := json.Marshal(meta)
	return errors.Join(err, e, os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "meta.json"), text, 0o600), os.WriteFile(filepath.Join(dir, "requests.jsonl"), []byte(requests.String()), 0o600))
}
