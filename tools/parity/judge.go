package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/tools/golden/reference"
)

// kind is what a comparison came to.
type kind int

const (
	equal kind = iota
	skipped
	differing
)

func (k kind) String() string { return [...]string{"equal", "skipped", "DIFFERS"}[k] }

// verdict is the outcome of one run.
type verdict struct {
	kind kind
	seed uint64
	tags string
	why  string
}

// judge runs workloads in both programs.
type judge struct {
	binary string
	peer   *peer
	alone  bool   // without the peer
	dir    string // of files that go
	keep   string // of files that stay
}

// draws is how often the reference may roll its dice to meet our outcome.
const draws = 1000

func (j *judge) decide(ctx context.Context, w *workload) verdict {
	v := verdict{seed: w.seed, tags: w.tags.String()}
	base := filepath.Join(j.dir, fmt.Sprint(w.seed))
	var args []string
	if w.trace != "" {
		trace := base + ".jsonl"
		if err := os.WriteFile(trace, []byte(w.trace), 0o600); err != nil {
			v.kind, v.why = differing, err.Error()
			return v
		}
		args = append(args, trace)
	}
	profile := base + ".npz"
	if err := os.WriteFile(profile, w.profile, 0o600); err != nil {
		v.kind, v.why = differing, err.Error()
		return v
	}
	for _, a := range w.args {
		args = append(args, strings.ReplaceAll(a, profilePlace, profile))
	}
	if w.plan != nil {
		v.kind, v.why = j.decideScaling(ctx, w, base)
	} else {
		v.kind, v.why = j.runBoth(ctx, w, args, base)
	}
	if v.kind == differing {
		v.why += j.saveFiles(w)
	}
	return v
}

// runBoth runs ours, and then the reference beside it.
func (j *judge) runBoth(ctx context.Context, w *workload, args []string, base string) (kind, string) {
	got, err := runOurs(ctx, j.binary, args, "--compat", "dynamo-1.2", "--report-json", base+".ours.json")
	switch {
	case err != nil:
		return differing, fmt.Sprintf("%v: %s", err, got.said)
	case got.code > 2:
		return differing, fmt.Sprintf("ours ends with %d: %s", got.code, got.said)
	case !j.alone:
		return j.compare(ctx, w, args, base, got)
	}
	plain, err := runOurs(ctx, j.binary, args, "--report-json", base+".json")
	if err != nil || plain.code > 2 {
		return differing, fmt.Sprintf("without --compat: %v, ends with %d: %s", err, plain.code, plain.said)
	}
	return equal, fmt.Sprintf("ends with %d and %d: %s", got.code, plain.code, got.said)
}

// outcome is how our run ended.
type outcome struct {
	code int
	said string // on standard error
}

func (o outcome) String() string { return fmt.Sprintf("%d: %s", o.code, o.said) }

// compare runs the reference on the same command line.
func (j *judge) compare(ctx context.Context, w *workload, args []string, base string, got outcome) (kind, string) {
	own := ending{failed: got.code != 0, said: got.String()}
	mine, err := readReport(base + ".ours.json")
	switch {
	case !own.failed && err != nil:
		return differing, err.Error()
	case !own.failed:
		own.summary = fmt.Sprintf("%d requests, %.6g ms", mine.Requests, mine.DurationMS)
	}
	return j.matchOutcomes(ctx, w, append(args[:len(args):len(args)], "--report-json", base+".json"), own, func() ([]reference.Diff, string, error) {
		theirs, err := readReport(base + ".json")
		if err != nil {
			return nil, "", err
		}
		return reference.Compare(theirs, mine), fingerprintOf(theirs), nil
	})
}

// ending is how our run of a workload ended, for the verdict.
type ending struct {
	failed  bool
	said    string // how it failed
	summary string // what it came to
}

// matchOutcomes runs the reference until an outcome of it is ours. After each run that
// both get to the end of, compare lists the differences and names the outcome.
func (j *judge) matchOutcomes(ctx context.Context, w *workload, job any, own ending, compare func() ([]reference.Diff, string, error)) (kind, string) {
	times := 1
	if w.ties {
		times = draws
	}
	seen := make(map[string]int)
	var diffs []reference.Diff
	for range times {
		a, err := j.peer.run(ctx, job)
		switch {
		case errors.Is(err, errEndless):
			return skipped, fmt.Sprintf("%v; ours ends with %s", err, own.said)
		case err != nil:
			return differing, err.Error()
		case a.Code != 0 && own.failed:
			return equal, "both refuse: " + own.said
		case a.Code != 0:
			return differing, fmt.Sprintf("the reference fails, ours does not: %s", a.Said)
		case own.failed:
			continue // another roll of the dice may lead where ours got stuck
		}
		var name string
		if diffs, name, err = compare(); err != nil {
			return differing, err.Error()
		}
		if len(diffs) == 0 {
			return equal, own.summary
		}
		seen[name]++
	}
	switch rare := countOnce(seen); {
	case own.failed:
		return differing, "ours fails, the reference does not: " + own.said
	case rare > 0 && w.ties:
		return skipped, fmt.Sprintf("%d outcomes of the reference, %d met only once, so there are more", len(seen), rare)
	}
	return differing, describeDiffs(diffs)
}

// fingerprintOf returns what two equal outcomes of the reference have in common: all
// but real time and what depends on an order of summation.
func fingerprintOf(r *collector.Report) string {
	var b strings.Builder
	for _, f := range r.Fields() {
		if !strings.HasPrefix(f.Key, "mean_") && !strings.HasPrefix(f.Key, "std_") &&
			f.Key != "wall_time_ms" && !strings.HasPrefix(f.Key, "processed_") {
			fmt.Fprintln(&b, f.Value)
		}
	}
	return b.String()
}

// countOnce returns the number of outcomes met a single time: where there are
// some, there are others not met at all.
func countOnce(seen map[string]int) int {
	n := 0
	for _, times := range seen {
		if times == 1 {
			n++
		}
	}
	return n
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

func readReport(path string) (*collector.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := collector.ReadJSON(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// saveFiles keeps the files of a run and returns how to repeat it by hand.
func (j *judge) saveFiles(w *workload) string {
	words := []string{"replay"}
	if w.trace != "" {
		path := filepath.Join(j.keep, fmt.Sprintf("parity-%d.jsonl", w.seed))
		if err := os.WriteFile(path, []byte(w.trace), 0o600); err != nil {
			return "\n  " + err.Error()
		}
		words = append(words, path)
	}
	profile := filepath.Join(j.keep, fmt.Sprintf("parity-%d.npz", w.seed))
	if w.profile != nil {
		if err := os.WriteFile(profile, w.profile, 0o600); err != nil {
			return "\n  " + err.Error()
		}
	}
	for _, a := range w.args {
		a = strings.ReplaceAll(a, profilePlace, profile)
		if strings.ContainsAny(a, `{" `) {
			a = "'" + a + "'"
		}
		words = append(words, a)
	}
	if w.plan != nil {
		return j.saveSchedule(w)
	}
	return "\n  command: " + strings.Join(words, " ")
}
