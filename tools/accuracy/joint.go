package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/replay-llm/replay/calibrate"
)

// jointFit is a fit of replay calibrate to several runs of one server, held to these and to
// others by replay validate.
type jointFit struct {
	name   string
	folder string   // below ../shared, of the runs
	fitted []string // runs
	judged []judgedRun
	flags  []string // of replay validate
}

// judgedRun is a run that a fit is held to.
type judgedRun struct {
	run  string
	sets []string // of its requests, as replay validate names them
}

// listJointFits returns the fits to several runs.
func listJointFits() []jointFit {
	warm := []string{"all from 15 s on"}
	return []jointFit{
		{"H100, Qwen3-14B, eager", "measured/one-pod-qwen3-14b-eager", []string{"rate-5", "rate-8"}, []judgedRun{
			{"rate-5", []string{"all"}}, {"rate-8", []string{"all"}}, {"rate-15", []string{"all", "critical", "sheddable"}},
		}, nil},
		{"H100, Qwen3-14B, eager", "measured/one-pod-qwen3-14b-eager", []string{"rate-5"}, []judgedRun{{"rate-8", []string{"all"}}}, nil},
		{"H100, Qwen3-14B, eager", "measured/one-pod-qwen3-14b-eager", []string{"rate-8"}, []judgedRun{{"rate-5", []string{"all"}}}, nil},
		{"4 × H100, Qwen3-14B", "measured/four-pods-qwen3-14b-prefix", []string{"w2-40", "short-w1-20"}, []judgedRun{
			{"w2-40", warm}, {"short-w2-40", warm}, {"short-w1-20", warm},
		}, []string{"--workers", "4"}},
	}
}

// judge returns the rows of a fit.
func (f *jointFit) judge(ctx context.Context, shared, dir string) ([]string, error) {
	program, profile := filepath.Join(dir, "replay"), filepath.Join(dir, "joint.json")
	if err := runCommand(ctx, nil, "go", "build", "-o", program, "./cmd/replay"); err != nil {
		return nil, err
	}
	args := []string{"calibrate", "--gpu", "h100", "--profile", profile}
	name := f.name + ": "
	for i, run := range f.fitted {
		args = append(args, filepath.Join(shared, f.folder, run))
		if i > 0 {
			name += " and "
		}
		name += run
	}
	if err := runCommand(ctx, nil, program, args...); err != nil {
		return nil, err
	}
	var rows []string
	for _, j := range f.judged {
		var got struct {
			Checks []calibrate.Judged `json:"checks"`
		}
		args := append([]string{"validate", filepath.Join(shared, f.folder, j.run), "--timing-profile", profile, "--output", "json"}, f.flags...)
		if err := runCommand(ctx, &got, program, args...); err != nil {
			return nil, err
		}
		for _, set := range j.sets {
			for _, c := range got.Checks {
				if c.Set == set {
					rows = append(rows, f.row(name, &j, &c))
				}
			}
		}
	}
	return rows, nil
}

// row returns the row of a set of requests.
func (f *jointFit) row(name string, j *judgedRun, c *calibrate.Judged) string {
	off := map[string]string{}
	for _, e := range c.Errors {
		off[e.Metric] = fmt.Sprintf("%+.1f / %+.1f / %+.1f %%", 100*e.Mean, 100*e.P50, 100*e.P99)
	}
	on := j.run + ", " + c.Set
	switch {
	case slices.Contains(f.fitted, j.run):
		on += " (fitted)"
	case c.Set == "all":
		on += ": another load"
	}
	return fmt.Sprintf("| %s | %s | vLLM's | %s | %s | %s |", name, on, off["TPOT"], off["TTFT"], off["E2E"])
}

// runCommand runs a command and reads what it prints as JSON into result, unless that is nil.
func runCommand(ctx context.Context, result any, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Stderr = os.Stderr
	text, err := c.Output()
	if err != nil {
		return fmt.Errorf("%s %v: %w", name, args, err)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(text, result)
}
