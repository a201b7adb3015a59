package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/replay-llm/replay/internal/reference"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/tools/draw"
)

// kind is the result of a comparison.
type kind int

const (
	equal kind = iota
	skipped
	differing
)

func (k kind) String() string { return [...]string{"equal", "skipped", "DIFFERS"}[k] }

// verdict is the result of one run.
type verdict struct {
	kind kind
	seed uint64
	tags string
	why  string
}

// judge runs workloads in both programs.
type judge struct {
	binary string
	peer   *process
	alone  bool   // run without the reference
	dir    string // folder of temporary files
	keep   string // folder of the files of failures
}

// draws is the maximum number of runs of the reference to reach the outcome of this program.
const draws = 1000

func (j *judge) decide(ctx context.Context, w *draw.Workload) verdict {
	v := verdict{seed: w.Seed, tags: w.Tags.String()}
	base := filepath.Join(j.dir, fmt.Sprint(w.Seed))
	args, err := writeFiles(w, base)
	if err == nil {
		v.kind, v.why, err = j.runBoth(ctx, w, args, base)
	}
	if err != nil {
		v.kind, v.why = differing, err.Error()
	}
	if v.kind == differing {
		v.why += j.saveFiles(w)
	}
	return v
}

// writeFiles writes the files of w with the prefix base, and returns its command line.
func writeFiles(w *draw.Workload, base string) (args []string, err error) {
	if w.Trace != "" {
		args = append(args, base+".jsonl")
		err = os.WriteFile(base+".jsonl", []byte(w.Trace), 0o600)
	}
	if w.Profile != nil {
		err = errors.Join(err, os.WriteFile(base+".npz", w.Profile, 0o600))
	}
	for _, a := range w.Args {
		args = append(args, strings.ReplaceAll(a, draw.ProfilePlace, base+".npz"))
	}
	return args, err
}

// runBoth runs this program and then the reference on the same job. runBoth returns an error for a run that did not
// end correctly.
func (j *judge) runBoth(ctx context.Context, w *draw.Workload, args []string, base string) (kind, string, error) {
	var job any = append(args[:len(args):len(args)], "--report-json", base+".json")
	var mine *outcome
	var err error
	if w.Plan != nil {
		p := *w.Plan
		p.Trace, p.Out, p.Engines = base+".jsonl", base+".json", nil
		for _, e := range w.Plan.Engines {
			p.Engines = append(p.Engines, strings.ReplaceAll(e, draw.ProfilePlace, base+".npz"))
		}
		job = &p
		mine, err = runSchedule(ctx, &p)
	} else {
		mine, err = j.runBinary(ctx, base+".ours.json", append(args[:len(args):len(args)], "--compat", "dynamo-1.2"))
	}
	switch {
	case err != nil:
		return differing, "", err
	case !j.alone:
		return j.matchOutcomes(ctx, w, job, base+".json", mine)
	case w.Plan != nil:
		return equal, "ends with " + mine.String(), nil
	}
	plain, err := j.runBinary(ctx, base+".ours.json", args)
	if err != nil {
		return differing, "", fmt.Errorf("without --compat: %w", err)
	}
	return equal, fmt.Sprintf("ends with %v and %v", mine, plain), nil
}

// matchOutcomes runs the reference until its outcome equals the outcome of this program. The reference writes its
// outcome to path.
func (j *judge) matchOutcomes(ctx context.Context, w *draw.Workload, job any, path string, mine *outcome) (kind, string, error) {
	times := 1
	if w.Ties {
		times = draws
	}
	seen := make(map[string]int)
	var diffs []reference.Diff
	for range times {
		a, err := j.peer.run(ctx, job)
		switch {
		case errors.Is(err, errEndless):
			return skipped, fmt.Sprintf("%v; ours ends with %v", err, mine), nil
		case err != nil:
			return differing, "", err
		case a.Code != 0 && mine.failed():
			return equal, "both refuse: " + mine.why, nil
		case a.Code != 0:
			return differing, fmt.Sprintf("the reference fails, ours does not: %s", a.Said), nil
		case mine.failed():
			continue // a later run of the reference may stall like the run of this program
		}
		theirs, err := readOutcome(path, w.Plan != nil)
		if err != nil {
			return differing, "", err
		}
		if w.Tags.Has("vllm") {
			forgivePasses(theirs.seen, mine.seen)
		}
		if diffs = compareOutcomes(theirs, mine); len(diffs) == 0 {
			return equal, mine.String(), nil
		}
		seen[fmt.Sprint(theirs.seen, fingerprintOf(theirs.report))]++
	}
	rare := 0 // outcomes that occur only once show that further outcomes probably exist
	for _, times := range seen {
		if times == 1 {
			rare++
		}
	}
	switch {
	case mine.failed():
		return differing, "ours fails, the reference does not: " + mine.why, nil
	case rare > 0 && w.Ties:
		return skipped, fmt.Sprintf("%d outcomes of the reference, %d met only once, so there are more", len(seen), rare), nil
	}
	return differing, describeDiffs(diffs), nil
}

// fingerprintOf returns the part of a report that is the same in all runs of the reference. fingerprintOf omits wall
// times and values that depend on an order of summation.
func fingerprintOf(r *collector.Report) string {
	var b strings.Builder
	for _, f := range r.Fields() {
		if !strings.HasPrefix(f.Key, "mean_") && !strings.HasPrefix(f.Key, "std_") && !collector.IsWall(f.Key) {
			fmt.Fprintln(&b, f.Value())
		}
	}
	return b.String()
}

// describeDiffs lists the first differences.
func describeDiffs(diffs []reference.Diff) string {
	const most = 4
	s := fmt.Sprintf("%d fields", len(diffs))
	for _, d := range diffs[:min(len(diffs), most)] {
		s += "\n  " + d.String()
	}
	return s
}

// saveFiles writes the files of a run and returns how to repeat the run.
func (j *judge) saveFiles(w *draw.Workload) string {
	base := filepath.Join(j.keep, fmt.Sprintf("parity-%d", w.Seed))
	args, err := writeFiles(w, base)
	said := "\n  command: replay"
	for _, a := range args {
		if strings.ContainsAny(a, `{" `) {
			a = "'" + a + "'"
		}
		said += " " + a
	}
	if w.Plan != nil {
		text, failed := json.MarshalIndent(w.Plan, "", " ")
		err = errors.Join(err, failed, os.WriteFile(base+".json", text, 0o600))
		said = "\n  schedule: " + base + ".json"
	}
	if err != nil {
		return "\n  " + err.Error()
	}
	return said
}
