package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/replay-llm/replay/tools/golden/reference"
)

// decideScaling runs w's schedule in both programs.
func (j *judge) decideScaling(ctx context.Context, w *workload, base string) (kind, string) {
	p := *w.plan
	p.Trace, p.Out = base+".jsonl", base+".json"
	p.Engines = slices.Clone(p.Engines)
	for i := range p.Engines {
		p.Engines[i] = strings.ReplaceAll(p.Engines[i], profilePlace, base+".npz")
	}
	limited, cancel := context.WithTimeout(ctx, ourPatience)
	defer cancel()
	mine := p.runHere(limited)
	if limited.Err() != nil {
		return differing, errOursEndless.Error()
	}
	if j.alone {
		return equal, fmt.Sprintf("ends with %v", mine.err)
	}
	return j.compareScaling(ctx, &p, w, mine)
}

// compareScaling runs the reference on the same schedule.
func (j *judge) compareScaling(ctx context.Context, p *schedule, w *workload, mine *steps) (kind, string) {
	own := ending{failed: mine.err != nil, said: fmt.Sprint(mine.err)}
	if !own.failed {
		own.summary = fmt.Sprintf("%d calls, %d requests, %.6g ms", len(p.Calls), mine.report.Requests, mine.report.DurationMS)
	}
	return j.matchOutcomes(ctx, w, p, own, func() ([]reference.Diff, string, error) {
		theirs, err := readSteps(p.Out)
		if err != nil {
			return nil, "", err
		}
		if w.tags.Has("vllm") {
			forgivePasses(theirs.seen, mine.seen)
		}
		return compareSteps(theirs, mine), fmt.Sprint(theirs.seen, fingerprintOf(theirs.report)), nil
	})
}

// saveSchedule keeps what a planner did.
func (j *judge) saveSchedule(w *workload) string {
	text, err := json.MarshalIndent(w.plan, "", " ")
	path := filepath.Join(j.keep, fmt.Sprintf("parity-%d.json", w.seed))
	if err := errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
		return "\n  " + err.Error()
	}
	return "\n  schedule: " + path
}

// compareSteps lists where ours is not the reference's.
func compareSteps(ref, ours *steps) []reference.Diff {
	diffs := diffValues("", ref.seen, ours.seen)
	return append(diffs, reference.Compare(ref.report, ours.report)...)
}

// forgivePasses gives ref what ours has where the reference's vLLM engine cannot be
// met: it adds up variances in an order drawn by lot, and counts a request
// again that lost its place while another was let in.
func forgivePasses(ref, ours []any) {
	for i := range min(len(ref), len(ours)) {
		r, ok := ref[i].(map[string]any)
		o, also := ours[i].(map[string]any)
		if !ok || !also {
			continue
		}
		for _, key := range []string{"prefill_fpm_snapshots", "decode_fpm_snapshots"} {
			theirs, _ := r[key].([]any)
			mine, _ := o[key].([]any)
			for k := range min(len(theirs), len(mine)) {
				forgivePass(theirs[k].(map[string]any), mine[k].(map[string]any))
			}
		}
	}
}

func forgivePass(ref, ours map[string]any) {
	for _, key := range []string{"var_prefill_length", "var_decode_kv_tokens"} {
		r, o := ref[key].(float64), ours[key].(float64)
		if math.Abs(r-o) <= 1e-9*max(r, o) {
			ref[key] = o
		}
	}
	const count = "num_queued_decode"
	if ours[count].(float64) > 0 && ref[count].(float64) > ours[count].(float64) {
		for _, key := range []string{count, "sum_queued_decode_kv_tokens", "var_queued_decode_kv_tokens"} {
			ref[key] = ours[key]
		}
	}
}

// diffValues compares two JSON values. What only ours has differs as well.
func diffValues(place string, ref, ours any) []reference.Diff {
	switch r := ref.(type) {
	case []any:
		if o, ok := ours.([]any); ok && len(o) == len(r) {
			var all []reference.Diff
			for i := range r {
				all = append(all, diffValues(fmt.Sprintf("%s[%d]", place, i), r[i], o[i])...)
			}
			return all
		}
	case map[string]any:
		if o, ok := ours.(map[string]any); ok && len(o) == len(r) {
			return diffMembers(place, r, o)
		}
	default:
		if ref == ours {
			return nil
		}
	}
	return []reference.Diff{{Place: place, Ref: fmt.Sprint(ref), Ours: fmt.Sprint(ours)}}
}

func diffMembers(place string, ref, ours map[string]any) []reference.Diff {
	keys := slices.Sorted(maps.Keys(ref))
	var all []reference.Diff
	for _, key := range keys {
		all = append(all, diffValues(place+"."+key, ref[key], ours[key])...)
	}
	return all
}
