package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/tools/stopwatch"
)

// jointFit is a fit of replay calibrate to several runs of one server. replay validate judges the fit by these runs
// and by further runs.
type jointFit struct {
	name   string
	folder string   // folder of the runs, below the folder of data
	fitted []string // runs that the fit uses
	judged []judgedRun
	flags  []string // flags of replay validate
	sheets []string // flags of replay calibrate with the GPU and the model; nil: h100
	rules  string   // possessive of the engine with the scheduler rules, such as SGLang's; "": vLLM's
	noise  string   // published noise, if the repeats are not part of the data
}

// disturbed is the prefix of the set of requests that excludes the time of a disturbance.
const disturbed = "all but "

// judgedRun is a run that a fit is compared with.
type judgedRun struct {
	run  string
	sets []string // sets of requests, as named by replay validate
}

// listJointFits returns the fits to several runs.
func listJointFits() []jointFit {
	warm := []string{"all from 15 s on"}
	eager := jointFit{name: "H100, Qwen3-14B, eager", folder: "measured/one-pod-qwen3-14b-eager", noise: statedNoise}
	kimi := jointFit{
		name: "4 × GB300, Kimi K2.5", folder: "measured/sglang-kimi-closed-loop", sheets: []string{"--gpu", "gb300", "--model", "kimi-k2.5"}, rules: "SGLang's", noise: unknownNoise,
	}
	of := func(base jointFit, fitted []string, judged ...judgedRun) jointFit {
		base.fitted, base.judged = fitted, judged
		return base
	}
	at := func(all ...int) (names []string) {
		for _, n := range all {
			names = append(names, fmt.Sprintf("raw_conc%d.jsonl.gz", n))
		}
		return names
	}
	all := []string{"all"}
	return []jointFit{
		of(eager, []string{"rate-5", "rate-8"}, judgedRun{"rate-5", []string{"all", disturbed}}, judgedRun{"rate-8", all}, judgedRun{"rate-15", []string{"all", "critical", "sheddable"}}),
		of(eager, []string{"rate-5"}, judgedRun{"rate-8", all}),
		of(eager, []string{"rate-8"}, judgedRun{"rate-5", []string{"all", disturbed}}),
		{
			name: "4 × H100, Qwen3-14B", folder: "measured/four-pods-qwen3-14b-prefix", fitted: []string{"w2-40", "short-w1-20"},
			judged: []judgedRun{{"w2-40", warm}, {"short-w2-40", warm}, {"short-w1-20", warm}}, flags: []string{"--workers", "4"}, noise: unknownNoise,
		},
		of(kimi, at(4, 64), judgedRun{at(4)[0], all}, judgedRun{at(16)[0], all}, judgedRun{at(64)[0], all}),
		of(kimi, at(4, 16), judgedRun{at(64)[0], all}),
		of(kimi, at(16, 64), judgedRun{at(4)[0], all}),
	}
}

// judge returns the rows of a fit.
func (f *jointFit) judge(ctx context.Context, data, dir string) ([]accuracy.Fit, error) {
	profile := filepath.Join(dir, "joint.json")
	program, err := stopwatch.Find(ctx, "", dir)
	if err != nil {
		return nil, err
	}
	args := append([]string{"calibrate", "--profile", profile}, f.sheets...)
	if f.sheets == nil {
		args = append(args, "--gpu", "h100")
	}
	name := f.name + ": "
	for i, run := range f.fitted {
		args = append(args, filepath.Join(data, f.folder, run))
		if i > 0 {
			name += " and "
		}
		name += nameRun(run)
	}
	if err := runCommand(ctx, nil, program, args...); err != nil {
		return nil, err
	}
	var rows []accuracy.Fit
	for _, j := range f.judged {
		noise, err := f.noiseOf(data, j.run)
		if err != nil {
			return nil, err
		}
		var got struct {
			Checks []calibrate.Judged `json:"checks"`
		}
		args := append([]string{"validate", filepath.Join(data, f.folder, j.run), "--timing-profile", profile, "--output", "json"}, f.flags...)
		if err := runCommand(ctx, &got, program, args...); err != nil {
			return nil, err
		}
		for _, set := range j.sets {
			for _, c := range got.Checks {
				if c.Set == set || set == disturbed && strings.HasPrefix(c.Set, set) {
					rows = append(rows, f.row(name, noise, &j, &c))
				}
			}
		}
	}
	return rows, nil
}

// row returns the row for one set of requests.
func (f *jointFit) row(name, noise string, j *judgedRun, c *calibrate.Judged) accuracy.Fit {
	row := accuracy.Fit{Fitted: name, Judged: nameRun(j.run) + ", " + c.Set, Rules: cmp.Or(f.rules, "vLLM's"), Noise: noise}
	switch {
	case slices.Contains(f.fitted, j.run):
		row.Judged += " (fitted)"
	case strings.HasPrefix(c.Set, "all"):
		row.OtherLoad = true
	}
	fillErrors(&row, c.Errors)
	return row
}

// nameRun returns the name of a run: the directory, or the concurrency of a file of turns.
func nameRun(run string) string {
	if n, ok := strings.CutPrefix(run, "raw_conc"); ok {
		return strings.TrimSuffix(n, ".jsonl.gz") + " at once"
	}
	return run
}

// runCommand runs a command and decodes its JSON output into result, if result is not nil.
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
