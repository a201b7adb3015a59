// Command onlineaccuracy replays workloads on the logical clock and in real time, several times each. The command
// compares the medians with the bounds of each workload. The command requires an idle machine.
//
//	go run ./tools/onlineaccuracy [-runs 5] [-only TEXT] [-precise]
//
// Read main.go, then cases.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/tools/stopwatch"
)

func main() {
	runs := flag.Int("runs", 5, "runs in real time per case")
	only := flag.String("only", "", "only cases with this in their names")
	precise := flag.Bool("precise", false, "let workers poll the clock at the end of each wait")
	flag.Parse()
	missed, err := run(os.Stdout, *runs, *only, *precise)
	if err != nil {
		fmt.Fprintln(os.Stderr, "onlineaccuracy:", err)
		os.Exit(1)
	}
	if missed > 0 {
		fmt.Fprintf(os.Stderr, "onlineaccuracy: %d cases are out of bounds\n", missed)
		os.Exit(3)
	}
}

// run prints the table and returns the number of cases out of bounds.
func run(out io.Writer, runs int, only string, precise bool) (missed int, err error) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "real time against logical time\tcounts\tduration\tmean TTFT\tmedian ITL\tmean e2e\treuse\tovershoot p99\tverdict")
	for _, t := range listTrials() {
		if !strings.Contains(t.name, only) {
			continue
		}
		t.live.Precise = precise
		row, ok, err := t.measureRow(runs)
		if err != nil {
			return missed, fmt.Errorf("%s: %w", t.name, err)
		}
		if !ok {
			missed++
		}
		fmt.Fprintln(w, row)
	}
	return missed, w.Flush()
}

// measureRow returns a row of the table, and whether it is within bounds.
func (t *trial) measureRow(runs int) (row string, ok bool, err error) {
	logical, err := t.spec.Run(context.Background(), replay.Streams{})
	if err != nil {
		return "", false, err
	}
	var live []*collector.Report
	for range runs {
		r, err := t.spec.RunLive(context.Background(), replay.Streams{}, t.live)
		if err != nil {
			return "", false, err
		}
		live = append(live, r.Report)
	}
	v := verdict{want: logical.Report, got: live, ok: true}
	cells := append([]string{t.name, v.compareCounts()}, v.compareTimes(t)...)
	overshoot := v.medianExtra("pass_overshoot_p99_ms")
	word := "ok"
	switch {
	case !v.ok && overshoot > noisy:
		word = "MISSED, and the machine was busy"
	case !v.ok:
		word = "MISSED"
	}
	return strings.Join(append(cells, fmt.Sprintf("%.2f ms", overshoot), word), "\t"), v.ok, nil
}

// noisy is the p99 overshoot of passes in ms above which a machine counts as busy.
const noisy = 1.0

// meanTTFT returns the mean TTFT of a report. The functions below return further values of a report.
func meanTTFT(r *collector.Report) float64   { return r.TTFT.Mean }
func medianITL(r *collector.Report) float64  { return r.ITL.Median }
func meanE2E(r *collector.Report) float64    { return r.E2E.Mean }
func reuseRatio(r *collector.Report) float64 { return r.PrefixCacheReusedRatio }
func durationMS(r *collector.Report) float64 { return r.DurationMS }

// verdict compares the runs of one case with their twin.
type verdict struct {
	want *collector.Report
	got  []*collector.Report
	ok   bool
}

// medianOf returns the median of a value over the runs.
func (v *verdict) medianOf(of func(*collector.Report) float64) float64 {
	return stopwatch.Median(v.got, of)
}

func (v *verdict) markMissed(ok bool) string {
	if ok {
		return ""
	}
	v.ok = false
	return " !"
}

// compareCounts compares the values that must be equal in every run.
func (v *verdict) compareCounts() string {
	for _, r := range v.got {
		if r.Requests != v.want.Requests || r.Completed != v.want.Completed ||
			r.InputTokens != v.want.InputTokens || r.OutputTokens != v.want.OutputTokens {
			return fmt.Sprintf("%d of %d", r.Completed, v.want.Completed) + v.markMissed(false)
		}
	}
	return "equal"
}

// shareAbove returns the relative difference of the median to the value of the twin.
func (v *verdict) shareAbove(of func(*collector.Report) float64) float64 {
	return v.medianOf(of)/of(v.want) - 1
}

// fastest is the maximum share by which an open-loop run may be faster than its twin.
const fastest = 0.01

// compareTimes compares the duration with its bounds. If request times and prefix reuse have bounds, compareTimes
// compares them too.
func (v *verdict) compareTimes(t *trial) []string {
	b := &t.bounds
	d := v.shareAbove(durationMS)
	cells := []string{fmt.Sprintf("%+.2f %% (%.1f)", 100*d, 100*b.duration)}
	if t.atLeast {
		cells[0] = fmt.Sprintf("%+.2f %% (at least %.0f)", 100*d, 100*b.duration) + v.markMissed(d >= b.duration)
	} else {
		cells[0] += v.markMissed(d <= b.duration && d >= -max(fastest, b.duration))
	}
	if t.atLeast || b.countsAndDuration {
		for _, of := range []func(*collector.Report) float64{meanTTFT, medianITL, meanE2E, reuseRatio} {
			cells = append(cells, fmt.Sprintf("%+.2f %%", 100*v.shareAbove(of)))
		}
		return cells
	}
	e, r := v.shareAbove(meanE2E), v.medianOf(reuseRatio)-reuseRatio(v.want)
	return append(cells, v.judgeTime(meanTTFT, b.ttft, b.ttftMS), v.judgeTime(medianITL, b.itl, b.itlMS),
		fmt.Sprintf("%+.2f %% (%.0f)", 100*e, 100*b.e2e)+v.markMissed(math.Abs(e) <= b.e2e),
		fmt.Sprintf("%+.3f (%.2f)", r, b.reuse)+v.markMissed(math.Abs(r) <= b.reuse))
}

// judgeTime compares a time with the larger of two bounds: a share and a number of ms.
func (v *verdict) judgeTime(of func(*collector.Report) float64, share, ms float64) string {
	d := v.medianOf(of) - of(v.want)
	limit := max(ms, share*of(v.want))
	return fmt.Sprintf("%+.2f ms (%.2f)", d, limit) + v.markMissed(math.Abs(d) <= limit)
}

// medianExtra returns the median of a value under the key online.
func (v *verdict) medianExtra(key string) float64 {
	return v.medianOf(func(r *collector.Report) (value float64) {
		fields, _ := r.Get("online").Value().([]collector.Field)
		if i := slices.IndexFunc(fields, func(f collector.Field) bool { return f.Key == key }); i >= 0 {
			value, _ = fields[i].Value().(float64)
		}
		return value
	})
}
