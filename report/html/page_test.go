package html

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/classes"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/series"
	"github.com/replay-llm/replay/report/slo"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// made returns a run with n requests on a number of workers.
func made(n, workers int) Run {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	s, rows := series.New(), make([]requests.Row, n)
	for i := range rows {
		q := &sim.Request{ID: sim.RequestID(i), InputTokens: 1000, OutputTokens: 20}
		at := sim.Time(i) * 3
		s.Arrived(q, at)
		first := at + sim.Time(30+200*rng.Float64())
		s.Pass(scheduler.Aggregated, sim.WorkerID(i%workers), &scheduler.Pass{
			Start: at, End: first, Count: 1, Gap: first - at, Tokens: 1, PrefillTokens: 1000,
			Admitted: []scheduler.Admission{{Request: q.ID, Reused: 300}},
			Detail:   &scheduler.Detail{PrefillEnd: first - 5, Blocks: 1000, Held: rng.IntN(1000)},
		})
		last := first + sim.Time(400*rng.Float64())
		s.Pass(scheduler.Aggregated, sim.WorkerID(i%workers), &scheduler.Pass{
			Start: first, End: last, Count: 19, Gap: (last - first) / 19, Tokens: 1, Decoding: 1,
			Marks: []scheduler.Mark{{Request: q.ID, Last: true, Tokens: 20}},
		})
		rows[i] = requests.Row{
			ID: i, Session: fmt.Sprint(i), Line: requests.Count(i + 1), Worker: requests.Count(i % workers), PrefillWorker: requests.None,
			Instants: requests.Instants{Arrival: requests.MS(at), Admit: requests.MS(at), First: requests.MS(first), Last: requests.MS(last)},
			Input:    1000, Output: 20, Tokens: 20, TTFT: requests.MS(first - at), E2E: requests.MS(last - at), ITLMean: requests.MS((last - first) / 19),
		}
		rows[i].Parts[2] = rows[i].TTFT
		rows[i].Parts[6] = rows[i].E2E - rows[i].TTFT
	}
	return Run{Name: "a </script><b>", Facts: [][2]string{{"seed", "42"}}, Trace: "t.jsonl", Rows: rows, Series: s.File(), Report: &collector.Report{Requests: n, Completed: n, DurationMS: 3 * float64(n)}}
}

func written(t *testing.T, runs ...Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, Page{Title: `<"runs">`}, runs); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A page loads no external resource, and names with markup are escaped.
func TestPageIsSelfContained(t *testing.T) {
	text := written(t, made(200, 3), made(200, 3))
	for _, bad := range []string{`src=`, `href=`, `@import`, `url(`, `fetch(`, `XMLHttpRequest`, `{{`, `<b>`, `<"runs">`} {
		if strings.Contains(strings.ReplaceAll(text, "https://github.com/leeoniya/uPlot", ""), bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	if n := strings.Count(text, "</script>"); n != 4 {
		t.Errorf("%d scripts end, want 4", n)
	}
	if !strings.Contains(text, "The MIT License") || !strings.Contains(text, "Leon Sorokin") {
		t.Error("the library's licence is not on the page")
	}
	data := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(text)
	var p page
	if data == nil || json.Unmarshal([]byte(data[1]), &p) != nil || len(p.Runs) != 2 || p.Runs[0].Name != "a </script><b>" {
		t.Errorf("the page's data do not read back: %.200v", data)
	}
}

// A page shows the assumptions of a result and the state of the load in words. No value is shown as an object.
func TestPageHasAssumptionsAndVerdict(t *testing.T) {
	r := made(10, 1)
	r.Report.Add(
		collector.Of("assumptions", []collector.Field{collector.Of("kv_cache", "64 tokens a worker")}),
		collector.Of("energy", []collector.Field{collector.Of("joules", 3.5)}),
		collector.Of("saturation", "overloaded"),
		collector.Of("saturation_test", []collector.Field{collector.Of("wait_first_ms", 7.0), collector.Of("wait_last_ms", 900.0)}),
	)
	got := newRun(&r, []string{"ttft"})
	if len(got.Assumes) != 1 || got.Assumes[0] != [2]string{"kv cache", "64 tokens a worker"} {
		t.Errorf("it assumes %q", got.Assumes)
	}
	if got.Load[0] != "overloaded" || !strings.Contains(got.Load[1], "mean wait 7 ms in the first twelfth of the requests, 900 ms in the last") {
		t.Errorf("the load is %q", got.Load)
	}
	for key, value := range got.Report {
		if _, object := value.([]collector.Field); object || strings.HasPrefix(key, "saturation") {
			t.Errorf("the table of values has %s: %v", key, value)
		}
	}
	if got.Report["energy_joules"] != 3.5 {
		t.Errorf("the parts of an object are lost: %v", got.Report)
	}
}

// madeWith returns a run with objectives, for all requests together and for each request.
func madeWith(t *testing.T, n int, objectives string) Run {
	t.Helper()
	r := made(n, 4)
	all, err := slo.Parse(objectives)
	if err != nil {
		t.Fatal(err)
	}
	r.Report.TTFT.P99, r.Report.TTFT.Median = 220, 130
	r.Report.Add(slo.Judge(all, 0.5, r.Rows, &harness.Result{Report: r.Report}).Fields()...)
	return r
}

// A page has the objectives of its runs with their points on the charts, and draws the latencies of the objectives.
// The table of values does not repeat these latencies.
func TestPageHasObjectives(t *testing.T) {
	r := madeWith(t, 400, "p99:ttft=200ms,median:ttft=1s,itl=1us,e2e=10s")
	curves := curveNames([]Run{made(3, 1), r})
	if want := []string{"ttft", "itl", "e2e", "tpot"}; !slices.Equal(curves, want) {
		t.Errorf("%q are drawn, want %q: each request's ITL is its mean gap", curves, want)
	}
	got := newRun(&r, curves)
	want := []objective{
		{"median TTFT", "ttft", 0.5, 1000, false, 130, 0, true, ""},
		{"p99 TTFT", "ttft", 0.99, 200, false, 220, 0, false, ""},
		{"each E2E", "e2e", -1, 10_000, true, 1, 0.5, true, ""},
		{"each ITL", "tpot", -1, 0.001, true, 0, 0.5, false, ""},
		{"all that are for each request", "", -1, 0, true, 0, 0.5, false, ""},
	}
	if !slices.Equal(got.Held, want) {
		t.Errorf("it is held to %+v, want %+v", got.Held, want)
	}
	for key := range got.Report {
		if strings.HasPrefix(key, "slo_") {
			t.Errorf("the table of values has %s", key)
		}
	}
	if _, known := got.Report["goodput_rps"]; !known || got.Curves["tpot"].N != 400 {
		t.Errorf("goodput is lost, or of 400 requests %d have a TPOT", got.Curves["tpot"].N)
	}
}

// A page with a million requests on many workers has at most 5 MB.
func TestPageStaysSmall(t *testing.T) {
	const most = 5_000_000
	requests := long.Cases(100_000, 1_000_000)
	if n := len(written(t, made(requests, 8))); n > most {
		t.Errorf("a page of %d requests takes %d bytes, want at most %d", requests, n, most)
	}
	if n := len(written(t, made(20_000, 1000), made(20_000, 1000))); n > most {
		t.Errorf("a page of two runs on a thousand workers takes %d bytes, want at most %d", n, most)
	}
}

// The percentiles of a curve equal those of the report on the same page.
func TestQuantilesAreTheReports(t *testing.T) {
	r := made(5000, 2)
	h := &r.Series.Gaps
	r.Report.ITL = collector.Distribution{
		Median: 1.004 * h.Quantile(0.5), P75: 0.996 * h.Quantile(0.75), P90: h.Quantile(0.9), P95: h.Quantile(0.95), P99: 1.004 * h.Quantile(0.99), Max: 2 * h.Quantile(1),
	}
	c := newCurves(&r, []string{"itl"})["itl"]
	at := func(q float64) float64 { return c.Quantiles[slices.Index(curveQuantiles(), q)] }
	if d := r.Report.ITL; at(0.5) != roundDigits(d.Median) || at(0.75) != roundDigits(d.P75) || at(0.99) != roundDigits(d.P99) {
		t.Errorf("the curve has %v, %v, %v at p50, p75, p99, want those of %+v", at(0.5), at(0.75), at(0.99), d)
	}
	if !slices.IsSorted(c.Quantiles) {
		t.Errorf("the curve falls: %v", c.Quantiles)
	}
}

func TestQuantilesRise(t *testing.T) {
	r := made(5000, 2)
	for name, c := range newCurves(&r, []string{"ttft", "itl", "e2e", "tpot"}) {
		for i := 1; i < len(c.Quantiles); i++ {
			if c.Quantiles[i] < c.Quantiles[i-1] {
				t.Errorf("%s: quantile %v is %v ms, below the one before", name, curveQuantiles()[i], c.Quantiles[i])
			}
		}
		sum := 0.0
		for _, share := range c.Shares {
			sum += share
		}
		if c.N < 5000 || sum < 0.999 || sum > 1.001 || len(c.Edges) != len(c.Shares)+1 {
			t.Errorf("%s: %d values in %d bins with %d edges sum to %v", name, c.N, len(c.Shares), len(c.Edges), sum)
		}
	}
}

// madeClassed returns a run with two classes, each with a separate objective.
func madeClassed(t *testing.T) Run {
	t.Helper()
	r := made(400, 4)
	for i := range r.Rows {
		r.Rows[i].Class = []string{"chat", "batch", "batch", "batch"}[i%4]
	}
	all, err := slo.Parse("chat:p99:ttft=200ms,batch:each:e2e=10s")
	if err != nil {
		t.Fatal(err)
	}
	r.Report.Add(slo.Judge(all, 0.5, r.Rows, &harness.Result{Report: r.Report}).Fields()...)
	r.Report.Add(classes.Summarize([]string{"chat", "batch"}, r.Rows, 1000).Fields()...)
	return r
}

// A page has the classes of a run with separate curves, and their objectives next to them. The table of values does
// not contain these objectives.
func TestPageHasClasses(t *testing.T) {
	r := madeClassed(t)
	got := newRun(&r, curveNames([]Run{r}))
	if n := len(got.Classes); n != 2 || got.Classes[0].Name != "chat" || got.Classes[0].Requests != 100 || got.Classes[0].Curves["ttft"].N != 100 ||
		got.Classes[0].Met != nil || got.Classes[1].Met == nil || *got.Classes[1].Met != 1 {
		t.Errorf("%d classes: %+v", n, got.Classes)
	}
	for key := range got.Report {
		if strings.HasPrefix(key, "class") && key != "class_fairness" {
			t.Errorf("the table of values has %s", key)
		}
	}
	if len(got.Held) != 2 || got.Held[0].Class != "chat" || got.Held[0].Curve != "ttft" || got.Held[0].Share != 0.99 {
		t.Errorf("held to %+v", got.Held)
	}
}
