package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/internal/accuracy"
)

// judgeFits returns the errors of replay calibrate on the runs of servers. Each fit is judged by held-out requests.
func judgeFits(ctx context.Context, servers []*server, data, dir string) (all []accuracy.Fit, err error) {
	for _, s := range servers {
		if !s.halves {
			continue
		}
		rows, err := s.judgeHalves(ctx, data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, rows...)
	}
	for _, f := range listJointFits() {
		rows, err := f.judge(ctx, data, dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		all = append(all, rows...)
	}
	return all, nil
}

// fillErrors sets the errors in the row of a fit.
func fillErrors(row *accuracy.Fit, all []calibrate.Errors) {
	for _, e := range all {
		p50, p99 := toPercent(float64(e.P50)), toPercent(float64(e.P99))
		off := accuracy.Off{Mean: toPercent(float64(e.Mean)), P50: &p50, P99: &p99}
		switch e.Metric {
		case "TPOT":
			row.TPOT = off
		case "TTFT":
			row.TTFT = off
		case "E2E":
			row.E2E = off
		}
	}
}

// judgeHalves fits to the first half of a run's requests, once by vLLM's rules and once by the reference's.
// judgeHalves judges each fit by the second half.
func (s *server) judgeHalves(ctx context.Context, data string) ([]accuracy.Fit, error) {
	dir := filepath.Join(data, s.path)
	m, err := calibrate.Read(dir, 0)
	if err != nil {
		return nil, err
	}
	prompts, err := measured.ReadPrompts(promptsOf(dir), 16)
	if err != nil {
		return nil, err
	}
	var rows []accuracy.Fit
	for _, rules := range []string{ownRules, referenceRules} {
		r, err := calibrate.Run(ctx, m, calibrate.Options{Holdout: 0.5, Prompts: prompts, Reference: rules == referenceRules})
		if err != nil {
			return nil, err
		}
		for _, c := range r.Checks {
			if !c.HeldOut || !strings.HasPrefix(c.Fitted, "first") {
				continue
			}
			row := accuracy.Fit{Fitted: s.name + ", " + c.Fitted, Judged: c.Judged + " of the same run", Rules: rules, Queue: s.overload, Noise: unknownNoise}
			fillErrors(&row, c.Errors)
			rows = append(rows, row)
		}
	}
	return rows, nil
}
