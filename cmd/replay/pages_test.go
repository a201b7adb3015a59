package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/report/html"
)

// readPage reads the data of a page into v, and returns it.
func readPage(t *testing.T, file string, v any) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, data, _ := strings.Cut(string(text), `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	if err := json.Unmarshal([]byte(data), v); err != nil {
		t.Fatalf("%s: %v: %.300s", file, err, data)
	}
	return data
}

// The page of a sweep has the settings of all cells and their common objectives as limits of its chart. The page
// marks cells with growing queues.
func TestSweepPage(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	var last html.SheetPage
	sweep := func(more ...string) html.SheetTable {
		args := []string{"sweep", "--trace=requests.jsonl", "--set=trace-block-size=64", "--grid=workers=1,2", "--out=s.html", "--overwrite"}
		printed(t, append(args, more...))
		var page html.SheetPage
		readPage(t, "s.html", &page)
		facts := map[string]string{}
		for _, row := range page.Facts[0].Rows {
			facts[row[0]] = row[1]
		}
		if facts["trace"] != "requests.jsonl" || facts["trace-block-size"] != "64" {
			t.Errorf("all cells have %v", facts)
		}
		last = page
		return page.Tables[0]
	}
	got := sweep("--grid=slo=p99:e2e=1h")
	if a := last.Answer; a == nil || a.Number != "2 of 2 cells" || a.Good == nil || !*a.Good || !strings.HasPrefix(a.Verdict, "Of the cells that meet all objectives, p99 TTFT is lowest with workers ") {
		t.Errorf("the answer is %+v", a)
	}
	if asked := last.Facts[len(last.Facts)-1].Rows; asked[0][0] != "command" || !strings.HasPrefix(asked[0][1], "replay sweep --trace=requests.jsonl ") {
		t.Errorf("what was asked is %v", asked)
	}
	if sweep("--grid=slo=p99:e2e=1us"); !strings.HasPrefix(last.Answer.Verdict, "No cell meets all objectives. Of all cells, ") || *last.Answer.Good {
		t.Errorf("the answer is %+v", last.Answer)
	}
	got = sweep("--grid=slo=p99:e2e=30ms")
	if len(got.Limits) != 1 || got.Limits["p99_e2e_latency_ms"] != 30 {
		t.Errorf("limits are %v", got.Limits)
	}
	if got.Mark != "saturation" || len(got.Marked) != 2 || got.Marked[0].Value != "overloaded" || !strings.HasPrefix(got.Marked[0].Means, "overloaded: ") {
		t.Errorf("%s marks %+v", got.Mark, got.Marked)
	}
	if got := sweep("--grid=slo=p99:e2e=30ms,p99:e2e=40ms"); len(got.Limits) != 0 {
		t.Errorf("cells differ in their limits, and there is one: %v", got.Limits)
	}
	few := strings.Join(sweep("--repeat=2").Few, " ")
	if !strings.Contains(few, "resampled_p99_ttft_ms_verdict") {
		t.Errorf("what came of resamples is not shown: %s", few)
	}
	for _, name := range []string{"resampled_p99_ttft_ms_prediction_low", "resampled_p99_ttft_ms_confidence_high", "resampled_p99_ttft_ms_change_prediction_high"} {
		if !slices.ContainsFunc(last.Tables[0].Columns, func(c table.Column) bool { return c.Name == name }) {
			t.Errorf("no column %s", name)
		}
	}
	if explained := fmt.Sprint(last.Facts); !strings.Contains(explained, "prediction interval") || !strings.Contains(explained, "confidence interval") {
		t.Errorf("the intervals have no names: %s", explained)
	}
}

// The page of a comparison has its verdict, the settings and values that differ, and the requests with the largest
// changes.
func TestDiffPage(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	printed(t, []string{"trace", "requests.jsonl", "--trace-block-size=64", "--out=a"})
	printed(t, []string{"trace", "requests.jsonl", "--trace-block-size=64", "--workers=2", "--out=b"})
	var out, errs bytes.Buffer
	if code := run([]string{"diff", "a", "b", "--html=d.html"}, strings.NewReader(""), &out, &errs); code != cli.ExitDiffer {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	var page html.SheetPage
	readPage(t, "d.html", &page)
	if page.Answer == nil || page.Answer.Good != nil || page.Answer.Verdict != "The runs differ." {
		t.Fatalf("the answer is %+v", page.Answer)
	}
	if rows := page.Answer.Facts[len(page.Answer.Facts)-1].Rows; rows[0] != [2]string{"command", "replay diff a b --html=d.html"} {
		t.Errorf("what was asked is %v", rows)
	}
	if len(page.Answer.Grids) != 2 || !slices.ContainsFunc(page.Answer.Grids[1].Rows, func(row []string) bool { return row[0] == "workers" }) {
		t.Errorf("grids are %v", page.Answer.Grids)
	}
	if len(page.Tables) != 2 || len(page.Tables[0].Rows) == 0 || len(page.Tables[1].Rows) == 0 || page.Tables[0].Keyed || !page.Tables[1].Keyed {
		t.Errorf("tables are %v", page.Tables)
	}
	printed(t, []string{"sweep", "--trace=requests.jsonl", "--set=trace-block-size=64", "--grid=workers=1,2", "--html=s.html"})
	if readPage(t, "s.html", &page); len(page.Tables) == 0 || len(page.Tables[0].Rows) != 2 {
		t.Errorf("the page of a sweep has %v", page.Tables)
	}
	errs.Reset()
	if code := run([]string{"sweep", "--trace=requests.jsonl", "--grid=workers=1,2", "--html=s.html"}, strings.NewReader(""), &out, &errs); code != cli.ExitRefused || !strings.Contains(errs.String(), "--html: s.html: exists") {
		t.Errorf("exit %d: %s", code, &errs)
	}
}

// The pages of a calibration and of a validation have the same parts: errors, measured against simulated values, each
// request, assumptions, and the command.
func TestMeasuredPages(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	for _, c := range []struct {
		args, verdict string
		good          bool
	}{
		{"calibrate measured --holdout=0.5 --profile=p.json --html=c.html", "Held-out means of TTFT, TPOT and E2E are ", true},
		{"validate measured --timing-profile=p.json --tolerance=0.5 --html=v.html", " requests, simulated against measured: mean TTFT ", true},
	} {
		printed(t, strings.Fields(c.args))
		var page html.SheetPage
		readPage(t, c.args[strings.LastIndexByte(c.args, '=')+1:], &page)
		if a := page.Answer; a == nil || !strings.Contains(a.Verdict, c.verdict) || a.Good == nil || *a.Good != c.good {
			t.Fatalf("%s: the answer is %+v", c.args, a)
		}
		var titles []string
		for _, g := range page.Answer.Grids {
			titles = append(titles, g.Title)
		}
		if got := strings.Join(titles, "; "); !strings.HasPrefix(got, "Errors, simulated to measured; ") || !strings.HasSuffix(got, "Measured and simulated") {
			t.Errorf("%s: grids are %s", c.args, got)
		}
		if len(page.Tables) != 2 || page.Tables[0].Title != "Each request" || len(page.Tables[0].Rows) == 0 {
			t.Errorf("%s: tables are %v", c.args, page.Tables)
		}
		facts := page.Answer.Facts
		if last := facts[len(facts)-1].Rows[0]; last != [2]string{"command", "replay " + c.args} || facts[0].Title != "What this assumes" {
			t.Errorf("%s: facts are %v", c.args, facts)
		}
	}
}

// The page of runs has their objectives, draws the latencies of these objectives, and compares each run with the
// first run, request by request.
func TestReportPage(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	printed(t, []string{"trace", "requests.jsonl", "--trace-block-size=64", "--out=a"})
	printed(t, []string{"trace", "requests.jsonl", "--trace-block-size=64", "--workers=2", "--slo=p99:ttft=1us,tpot=1h", "--out=b"})
	printed(t, []string{"report", "a", "b", "--html=both.html"})
	type held struct {
		Title, Curve        string
		Limit, Share, Value float64
		Met                 bool
	}
	var page struct {
		Drawn []string
		Runs  []struct {
			Name   string
			Held   []held
			Paired *struct {
				Pairs   int
				Metrics []struct{ Metric, Verdict string }
			}
		}
	}
	readPage(t, "both.html", &page)
	if got := strings.Join(page.Drawn, " "); got != "ttft itl e2e tpot" {
		t.Errorf("drawn are %s", got)
	}
	if len(page.Runs) != 2 || len(page.Runs[0].Held) != 0 || len(page.Runs[1].Held) != 2 {
		t.Fatalf("%+v", page.Runs)
	}
	if p := page.Runs[1].Paired; page.Runs[0].Paired != nil || p == nil || p.Pairs != 4 || len(p.Metrics) == 0 || p.Metrics[0].Verdict != "too few" {
		t.Errorf("compared is %+v", p)
	}
	if h := page.Runs[1].Held; h[0].Title != "p99 TTFT" || h[0].Limit != 0.001 || h[0].Share != 0.99 || h[0].Met || h[1] != (held{"each TPOT", "tpot", 3.6e6, -1, 1, true}) {
		t.Errorf("%+v", h)
	}
}
