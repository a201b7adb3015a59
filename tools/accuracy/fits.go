package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/replay-llm/replay/calibrate"
)

// judgeFits returns the table of what replay calibrate fits to one run of a server, held to
// requests that it has not seen.
func judgeFits(ctx context.Context, servers []*server, data, dir string) (string, error) {
	t := &strings.Builder{}
	fmt.Fprintln(t, "| Fitted to | Judged on, held out | Rules | TPOT: mean / p50 / p99 | TTFT: mean / p50 / p99 | E2E: mean / p50 / p99 | Noise of repeats, means |")
	fmt.Fprintln(t, "| --- | --- | --- | --- | --- | --- | --- |")
	for _, s := range servers {
		if !s.halves {
			continue
		}
		rows, err := s.judgeHalves(ctx, data)
		if err != nil {
			return "", fmt.Errorf("%s: %w", s.name, err)
		}
		for _, row := range rows {
			fmt.Fprintln(t, row)
		}
	}
	for _, f := range listJointFits() {
		rows, err := f.judge(ctx, data, dir)
		if err != nil {
			return "", fmt.Errorf("%s: %w", f.name, err)
		}
		for _, row := range rows {
			fmt.Fprintln(t, row)
		}
	}
	return t.String(), nil
}

// judgeHalves fits to the first half of a run's requests, by the rules of vLLM and by those
// of the reference, and judges by the second.
func (s *server) judgeHalves(ctx context.Context, data string) ([]string, error) {
	dir := filepath.Join(data, s.path)
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
			rows = append(rows, fmt.Sprintf("| %s, %s | %s of the same run | %s | %s | %s%s | %s | %s |", s.name, c.Fitted, c.Judged, rules, off["TPOT"], off["TTFT"], s.mark(), off["E2E"], unknownNoise))
		}
	}
	return rows, nil
}
