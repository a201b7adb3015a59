package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/reference"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/tools/draw"
)

// outcome is the outcome of a run.
type outcome struct {
	// seen is the input of a planner as JSON, with the reference's names. seen has a state for each advance and the
	// traffic for each drain.
	seen   []any
	calls  int               // number of planner calls
	report *collector.Report // nil: no report
	why    string            // why there is no report
}

func (o *outcome) failed() bool { return o.report == nil }

func (o *outcome) String() string {
	if o.failed() {
		return o.why
	}
	said := fmt.Sprintf("%d requests, %.6g ms", o.report.Requests, o.report.DurationMS)
	if o.calls > 0 {
		said = fmt.Sprintf("%d calls, %s", o.calls, said)
	}
	return said
}

// ourPatience is the time limit of a run of this program.
const ourPatience = 20 * time.Second

// errOursEndless reports that a run of this program had to be stopped.
var errOursEndless = errors.New("ours did not end in time")

// runBinary runs the binary of this program.
func (j *judge) runBinary(ctx context.Context, report string, args []string) (*outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, ourPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, j.binary, append(args[:len(args):len(args)], "--report-json", report)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	code := cmd.ProcessState.ExitCode()
	said := fmt.Sprintf("%d: %s", code, strings.TrimSpace(stderr.String()))
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %s", errOursEndless, said)
	case code < 0 || code > 2:
		return nil, fmt.Errorf("%w: ours ends with %s", err, said)
	case err != nil:
		return &outcome{why: said}, nil
	}
	r, err := reference.ReadReport(report)
	return &outcome{report: r}, err
}

// runSchedule executes the calls of a planner with this program.
func runSchedule(ctx context.Context, p *draw.Schedule) (*outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, ourPatience)
	defer cancel()
	out, err := stepThrough(ctx, p)
	switch {
	case ctx.Err() != nil:
		return nil, errOursEndless
	case err != nil:
		return &outcome{why: err.Error()}, nil
	}
	return out, nil
}

func stepThrough(ctx context.Context, p *draw.Schedule) (*outcome, error) {
	spec, err := reference.Parse(p.Args(), p.Trace, true)
	if err != nil {
		return nil, err
	}
	s, err := spec.Steps(ctx, replay.Streams{})
	if err != nil {
		return nil, err
	}
	out := &outcome{calls: len(p.Calls)}
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

// readOutcome reads the output of the reference: a report, and the input of the planner if there was one.
func readOutcome(path string, planned bool) (*outcome, error) {
	if !planned {
		r, err := reference.ReadReport(path)
		return &outcome{report: r}, err
	}
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
	return &outcome{seen: file.Seen, report: report}, nil
}

// compareOutcomes returns the differences between the outcomes of this program and the reference.
func compareOutcomes(ref, ours *outcome) []reference.Diff {
	return append(diffValues("", ref.seen, ours.seen), reference.Compare(ref.report, ours.report)...)
}

// forgivePasses copies values of this program to ref if the reference's vLLM engine cannot reproduce them. The
// reference's engine adds up variances in a random order, and counts a preempted request twice.
func forgivePasses(ref, ours []any) {
	for i := range min(len(ref), len(ours)) {
		r, _ := ref[i].(map[string]any)
		o, _ := ours[i].(map[string]any)
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

// diffValues compares two JSON values. A value that exists only in ours is a difference too.
func diffValues(place string, ref, ours any) (all []reference.Diff) {
	switch r := ref.(type) {
	case []any:
		if o, ok := ours.([]any); ok && len(o) == len(r) {
			for i := range r {
				all = append(all, diffValues(fmt.Sprintf("%s[%d]", place, i), r[i], o[i])...)
			}
			return all
		}
	case map[string]any:
		if o, ok := ours.(map[string]any); ok && len(o) == len(r) {
			for _, key := range slices.Sorted(maps.Keys(r)) {
				all = append(all, diffValues(place+"."+key, r[key], o[key])...)
			}
			return all
		}
	default:
		if ref == ours {
			return nil
		}
	}
	return []reference.Diff{{Place: place, Ref: fmt.Sprint(ref), Ours: fmt.Sprint(ours)}}
}
