package slo

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/requests"
)

// answered returns a request with the given times; with tpot < 0 it has one token.
func answered(ttft, tpot, e2e float64) requests.Row {
	u := requests.Unknown()
	r := requests.Row{TTFT: requests.MS(ttft), E2E: requests.MS(e2e), Tokens: 10, Output: 10, TPOT: u, ITLMean: u, TTST: u}
	if tpot < 0 {
		r.Tokens, r.Output = 1, 1
	} else {
		r.TPOT, r.ITLMean, r.TTST = requests.MS(tpot), requests.MS(tpot), requests.MS(tpot)
	}
	return r
}

func TestJudge(t *testing.T) {
	unanswered := answered(1, 1, 1)
	unanswered.Tokens = 3
	rows := []requests.Row{
		answered(100, 10, 200), // meets all objectives
		answered(500, 30, 900), // at the limits
		answered(501, 10, 200),
		answered(501, 31, 200),
		answered(100, -1, 100), // has no time per token
		unanswered,
	}
	report := &collector.Report{DurationMS: 2000}
	report.TTFT.P99 = 1500
	report.ITL.Median = 20
	objectives, err := Parse("ttft=500ms,itl=30ms, p99:ttft=1s,p50:itl=0.02s")
	if err != nil {
		t.Fatal(err)
	}
	result := &harness.Result{Report: report}
	o := Judge(objectives, 0.5, rows, result)
	if o.Met != 3 || o.Attainment != 0.5 || o.GoodputRPS != 1.5 || o.GoodputTokS != 10.5 || o.Holds() {
		t.Errorf("%+v, want 3 met: 1.5 requests and 10.5 tokens per second, and the percentile missed", o)
	}
	want := []string{"", "", "ttft", "ttft+itl", "", "unfinished"}
	for i, r := range rows {
		if r.SLOMissed != want[i] || (r.SLO == requests.Met) != (want[i] == "") {
			t.Errorf("request %d missed %q (%d), want %q", i, r.SLOMissed, r.SLO, want[i])
		}
	}
	lines := strings.Join(o.Lines(), "\n")
	for _, line := range []string{
		"SLO: 3 of 6 requests met it (50.00%, target 50.00%)", "Goodput: 1.50 requests/sec, 10.50 output tokens/sec",
		"SLO ttft <= 500 ms: met by 50.00%", "SLO itl <= 30 ms: met by 66.67%",
		"SLO p99 ttft <= 1000 ms: missed, 1500.00 ms", "SLO median itl <= 20 ms: met, 20.00 ms",
	} {
		if !strings.Contains(lines, line) {
			t.Errorf("no line %q in\n%s", line, lines)
		}
	}
	if got := o.Missed(); got != "p99 ttft is 1500.00 ms, must be at most 1000 ms" {
		t.Errorf("missed: %q", got)
	}
	if o := Judge(objectives[:2], 0.51, rows, result); o.Holds() || !strings.Contains(o.Missed(), "3 of 6") {
		t.Errorf("%+v holds, want more requests", o)
	}
	report.Add(o.Fields()...)
	var text strings.Builder
	if err := report.WriteJSON(&text); err != nil {
		t.Error(err)
	}
	back, err := collector.ReadJSON(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	got := ReadOutcome(back)
	if order := func(a, b Judged) int { return strings.Compare(a.String(), b.String()) }; got != nil {
		slices.SortFunc(got.Objectives, order)
		slices.SortFunc(o.Objectives, order)
		got.Arrived = o.Arrived
	}
	if !reflect.DeepEqual(got, o) {
		t.Errorf("the report says %+v, want %+v", got, o)
	}
	if none := ReadOutcome(&collector.Report{}); none != nil {
		t.Errorf("a report without objectives says %+v", none)
	}
}

func TestLimitedKey(t *testing.T) {
	for key, want := range map[string]string{
		"slo_p99_ttft_ms": "p99_ttft_ms", "slo_median_e2e_ms": "median_e2e_latency_ms", "slo_p99.9_itl_ms": "p99.9_itl_ms",
		"slo_ttft_ms": "", "slo_p99_ttft_met": "", "p99_ttft_ms": "", "": "",
	} {
		if got := LimitedKey(key); got != want {
			t.Errorf("%q limits %q, want %q", key, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "must be a metric and a limit",
		"ttft":                "must be a metric and a limit",
		"ttft=500":            "with its unit",
		"ttft=-1ms":           "above 0",
		"speed=1s":            "must be one of ttft",
		"p97:ttft=1s":         "statistic is \"p97\"",
		"p99.99:ttft=1s":      "statistic is \"p99.99\"",
		"ttft=1s,ttft=2s":     "a second limit",
		"p99:ttft=1s,ttft=2x": "with its unit",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
}

// Percentiles that a report lacks are those of all requests, by nearest rank. The report gets the requested
// percentiles.
func TestFurtherPercentiles(t *testing.T) {
	spec := replay.Spec{
		Synthetic: loadgen.Synthetic{Requests: 700, Input: 900, Output: 9, Interval: 11},
		Speedup:   1, Topology: replay.Topology{Pools: replay.OnePool(engineargs.Default(), 1)},
	}
	result, err := spec.Run(context.Background(), replay.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	rows := requests.Collect(result.Collector, nil, nil, nil)
	for key, d := range map[string]collector.Distribution{"ttft_ms": result.Report.TTFT, "ttst_ms": result.Report.TTST,
		"tpot_ms": result.Report.TPOT, "itl_ms": result.Report.ITL, "e2e_latency_ms": result.Report.E2E} {
		if got, ok := result.Collector.Percentile(key, 99); !ok || got != d.P99 {
			t.Errorf("p99 of %s is %v, want %v as in the report", key, got, d.P99)
		}
	}
	for _, m := range requests.Metrics() {
		times := requests.KnownTimes(rows, m.At)
		slices.Sort(times)
		for statistic, p := range map[string]float64{"p98": 98, "p99.9": 99.9} {
			objectives, err := Parse(statistic + ":" + m.Name + "=1us," + statistic + ":itl=1h")
			if err != nil {
				t.Fatal(err)
			}
			o := Judge(objectives, 1, rows, result)
			want := times[int(math.Round(float64(len(times)-1)*p/100))]
			if got := o.Objectives[0]; got.ValueMS != want || got.Met || o.Holds() {
				t.Errorf("%s: %v, met %v, want %v, missed", got.Objective, got.ValueMS, got.Met, want)
			}
			if itl := o.Objectives[1].ValueMS; itl < result.Report.ITL.P95 || itl > result.Report.ITL.Max {
				t.Errorf("%s itl is %v, want it between %v and %v", statistic, itl, result.Report.ITL.P95, result.Report.ITL.Max)
			}
			has := func(f collector.Field) bool { return f.Key == statistic+"_"+m.Key && f.Value() == want }
			if !slices.ContainsFunc(o.Fields(), has) {
				t.Errorf("no %s_%s = %v in %v", statistic, m.Key, want, o.Fields())
			}
		}
	}
}
