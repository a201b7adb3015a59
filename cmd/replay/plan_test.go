package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/cmd/replay/plans"
	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/report/html"
)

// The plan is right on a short trace, and on a recorded hour.
func TestPlanIsRight(t *testing.T) {
	checkPlan(t, "../../testdata/traces/burst.jsonl", "--slo", "p99:ttft=500ms,p99:itl=50ms", "--block-size", "64")
	t.Run("recorded", func(t *testing.T) {
		trace := optional.Data(t, "traces/mooncake_conversation.jsonl")
		long.Only(t)
		checkPlan(t, trace, "--slo", "p99:ttft=2s,p99:itl=50ms", "--block-size", "512")
	})
}

// checkPlan checks a plan for a trace by separate replays: the cluster meets the objectives and every smaller cluster
// misses. The highest load of the plan is checked in the same way.
func checkPlan(t *testing.T, trace string, objectives ...string) {
	t.Helper()
	started := time.Now()
	var found plans.PlanDocument
	planned := printed(t, append([]string{"plan", trace, "--json"}, objectives...))
	if err := json.Unmarshal(planned, &found); err != nil || found.Best == nil {
		t.Fatalf("%v:\n%s", err, planned)
	}
	t.Logf("planned in %v: %d workers", time.Since(started), found.Best.At.Workers)
	best := found.Best
	meets := func(workers int, load float64) bool {
		var report struct {
			Met bool    `json:"slo_met"`
			P99 float64 `json:"p99_ttft_ms"`
		}
		text := printed(t, append([]string{"trace", trace, "--output", "json", "--workers", strconv.Itoa(workers),
			"--speedup", strconv.FormatFloat(load, 'g', -1, 64)}, objectives...))
		if err := json.Unmarshal(text, &report); err != nil {
			t.Fatal(err)
		}
		if workers == best.At.Workers && load == 1 && report.P99 != best.At.Objectives[0].Value {
			t.Errorf("p99 is %v ms, and the plan says %v", report.P99, best.At.Objectives[0].Value)
		}
		return report.Met
	}
	n := best.At.Workers
	if n < 2 || !meets(n, 1) || !best.EverySmallerRun || best.SmallerRun != n-1 {
		t.Errorf("%d workers miss, or not all smaller ones were run: %d", n, best.SmallerRun)
	}
	for smaller := 1; smaller < n; smaller++ {
		if meets(smaller, 1) {
			t.Errorf("%d workers meet, and the plan says %d", smaller, n)
		}
	}
	if best.Highest == nil || best.Beyond == nil || !meets(n, best.Highest.Load) || meets(n, best.Beyond.Load) ||
		best.Beyond.Load > 1.01*best.Highest.Load {
		t.Errorf("highest load %+v, next %+v", best.Highest, best.Beyond)
	}
	if best.Resamples != 20 || best.WorkersResampled == nil || len(found.Front) < 5 {
		t.Errorf("%d resamples, %d rows in the front", best.Resamples, len(found.Front))
	}
	var quick [2][]byte
	for i, jobs := range []string{"1", "5"} {
		args := []string{"plan", trace, "--json", "--resamples", "1", "--front=false", "--precision", "0.05", "--jobs", jobs}
		quick[i] = printed(t, append(args, objectives...))
	}
	if !bytes.Equal(quick[0], quick[1]) {
		t.Error("another number of jobs, another plan")
	}
}

// A repeated plan has the same result and reads its replays from the journal, also if it needs more replays. Another
// trace does not match the journal.
func TestPlanGoesOn(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	plan := func(file string, more ...string) string {
		args := []string{"plan", file, "--trace-block-size=64", "--slo=p99:ttft=30ms", "--max-workers=8", "--journal=done.jsonl"}
		return string(printed(t, append(args, more...)))
	}
	lines := func() int {
		text, err := os.ReadFile("done.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(text, []byte{'\n'})
	}
	plan("requests.jsonl", "--front=false", "--resamples=0")
	first := lines()
	whole := plan("requests.jsonl", "--resamples=3")
	second := lines()
	if first == 0 || second <= first {
		t.Errorf("%d replays noted, and then %d, want more", first, second)
	}
	if again := plan("requests.jsonl", "--resamples=3", "--jobs=1"); again != whole || lines() != second {
		t.Errorf("%d replays noted, want %d as before; the plan was\n%s\nand is\n%s", lines(), second, whole, again)
	}
	if err := os.Remove("done.jsonl"); err != nil {
		t.Fatal(err)
	}
	if fresh := plan("requests.jsonl", "--resamples=3"); fresh != whole {
		t.Errorf("without the journal the plan is\n%s\nwant\n%s", fresh, whole)
	}
	second = lines()
	if plan("sessions.jsonl", "--resamples=0", "--front=false"); lines() == second {
		t.Error("another trace takes what was noted of the first")
	}
}

// The files of a plan and of a sweep have a row for each replay.
func TestTableFiles(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	files := []string{"--out=t.csv", "--out=t.json", "--out=t.parquet", "--out=t.html"}
	printed(t, append([]string{"sweep", "--trace=requests.jsonl", "--set=trace-block-size=64", "--grid=workers=1,2,3", "--grid=router=round_robin"}, files...))
	checkTableFiles(t, 3, "p99_ttft_ms")
	var document plans.PlanDocument
	text := printed(t, append([]string{"plan", "requests.jsonl", "--trace-block-size=64", "--slo=p99:ttft=30ms", "--max-workers=4", "--resamples=2", "--json", "--gpu-cost=2", "--overwrite"}, files...))
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	checkTableFiles(t, document.Replays, "p99_ttft_ms")
}

// The page of a plan has its result in one sentence, its inputs and assumptions, and the clusters with the limits for
// its charts. No text on the page is formatted for a terminal.
func TestPlanPage(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	args := []string{"plan", "requests.jsonl", "--trace-block-size=64", "--slo=p99:ttft=30ms,itl=20ms", "--slo-attainment=0.9", "--max-workers=6", "--resamples=4",
		"--gpu=h100", "--model=llama-3.1-8b", "--vary=none", "--gpu-cost=2", "--front=false", "--json", "--out=t.html"}
	var found plans.PlanDocument
	if err := json.Unmarshal(printed(t, args), &found); err != nil || found.Best == nil || found.Best.Confident == nil {
		t.Fatalf("%v: no confident cluster", err)
	}
	var page html.SheetPage
	data := readPage(t, "t.html", &page)
	if page.Answer == nil {
		t.Fatalf("no answer: %.300s", data)
	}
	a, c := page.Answer, found.Best.Confident
	gpus := "1 GPU (1 worker, 2.00 an hour) meets "
	if c.GPUs > 1 {
		gpus = fmt.Sprintf("%d GPUs (%d workers, %d.00 an hour) meet ", c.GPUs, c.Workers, 2*c.GPUs)
	}
	want := gpus + fmt.Sprintf("ITL ≤ 20 ms for 90%% of the requests, and p99 TTFT ≤ 30 ms in %d of 4 simulated resamples with pass times changed by ", c.Met)
	if !strings.HasPrefix(a.Verdict, want) || a.Good == nil || !*a.Good || strings.ContainsRune(a.Verdict, '\n') {
		t.Errorf("the verdict is %q, want %q and more", a.Verdict, want)
	}
	facts := map[string]string{}
	for _, f := range a.Facts {
		for _, row := range f.Rows {
			facts[row[0]] = row[1]
		}
	}
	for name, part := range map[string]string{
		"command": "replay plan requests.jsonl ", "trace": "requests.jsonl, ", "GPU": "h100, 1 a worker", "model": "llama-3.1-8b",
		"price": "2.00 a GPU-hour, as given", "pass times": "measured operators of h100", "kv cache": "tokens a worker", "itl": "pools the gaps",
	} {
		if !strings.Contains(facts[name], part) {
			t.Errorf("%s is %q, want %q in it", name, facts[name], part)
		}
	}
	if len(a.Limits) != 2 || a.Limits[0].Limit != 0.9 || a.Limits[1].Limit != 30 || len(a.Cluster) < 1 || a.Across != "cost (USD an hour)" {
		t.Errorf("limits %+v by %s of %d clusters", a.Limits, a.Across, len(a.Cluster))
	}
	chosen := slices.IndexFunc(a.Cluster, func(c html.Cluster) bool { return c.Chosen == "answer" })
	if chosen < 0 || a.Cluster[chosen].GPUs != c.GPUs || len(a.Cluster[chosen].Low) != 2 {
		t.Errorf("the answer is not among the clusters: %+v", a.Cluster)
	}
	if len(a.Chances) < 2 || a.Target != 0.95 || !strings.HasPrefix(a.Verdict, a.Number+" (") {
		t.Errorf("%q, %+v", a.Number, a.Chances)
	}
	if i := slices.IndexFunc(a.Chances, func(x html.Chance) bool { return x.Chosen }); i < 0 || a.Chances[i].GPUs != c.GPUs || a.Chances[i].Share != float64(c.Met)/4 {
		t.Errorf("the answer is not among the chances: %+v", a.Chances)
	}
	if len(page.Facts) > 0 || strings.Contains(data, "Recommended cluster:") {
		t.Error("text for a terminal is on the page")
	}
}

// The values below the recommended cluster are those of that cluster. The values of the minimum for the trace as
// recorded are below its name, with its share of resamples, in the text and on the page.
func TestPlanNamesTheMinimum(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	text := string(printed(t, []string{"plan", "--input-tokens=2000", "--output-tokens=100", "--request-count=200", "--arrival-interval-ms=60",
		"--slo=p99:ttft=500ms,p99:itl=20ms", "--resamples=4", "--front=false", "--out=t.html"}))
	recommended, minimum, ok := strings.Cut(text, "Minimum for the trace as recorded: 6 workers (6 GPUs)\n  meets the objectives in 0 of 4 resamples, fewer than the target of 95%\n")
	if !ok || !strings.Contains(recommended, "  p99 itl   met  ") || !strings.Contains(minimum, "  p99 itl   met  ") || !strings.Contains(minimum, "Highest load of 6 workers: ") {
		t.Errorf("a figure does not name its cluster:\n%s", text)
	}
	var page html.SheetPage
	readPage(t, "t.html", &page)
	var titles []string
	for _, l := range page.Answer.Lists {
		titles = append(titles, l.Title)
	}
	for _, want := range []string{"6 workers, the minimum for the trace as recorded", "Highest load of 6 workers, the minimum for the trace as recorded"} {
		if !slices.Contains(titles, want) {
			t.Errorf("the page has the lists %q, and not %q", titles, want)
		}
	}
}

// A given cluster that meets the objectives on the recorded workload, but in too few resamples, is not shown as
// reliable. A cluster that misses is shown with the missed objective.
func TestPlanPageOfGivenClusters(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	for _, c := range []struct {
		more []string
		good bool
		want string
	}{
		{[]string{"--slo=p99:ttft=9s"}, true, "meets p99 TTFT ≤ 9 s on the trace as recorded, and in 4 of 4 simulated resamples."},
		{[]string{"--slo=p99:ttft=9s", "--resamples=0"}, true, "on the trace as recorded, which was not resampled."},
		{[]string{"--slo=p99:ttft=9s", "--gpu=h100", "--model=llama-3.1-8b", "--resamples=0"}, true, "1 GPU (1 worker, 2.50 an hour) meets "}, // the source of the price is a separate fact
		{[]string{"--slo=p99:ttft=1ms"}, false, "1 GPU (1 worker) does not meet p99 TTFT ≤ 1 ms: p99 ttft is "},
	} {
		var out, errs bytes.Buffer
		args := append([]string{"plan", "requests.jsonl", "--trace-block-size=64", "--workers=1", "--front=false", "--resamples=4", "--out=given.html", "--overwrite"}, c.more...)
		if code := run(args, nil, &out, &errs); code != 0 && c.good {
			t.Fatalf("%v: exit %d: %s", args, code, &errs)
		}
		var page html.SheetPage
		data := readPage(t, "given.html", &page)
		if page.Answer == nil {
			t.Fatalf("no answer: %.300s", data)
		}
		if a := page.Answer; a.Good == nil || *a.Good != c.good || !strings.Contains(a.Verdict, c.want) {
			t.Errorf("%v: good %v, %q; want %v, %q", c.more, a.Good, a.Verdict, c.good, c.want)
		}
	}
}

// checkTableFiles checks files with this number of rows.
func checkTableFiles(t *testing.T, rows int, column string) {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	csv, page := read("t.csv"), read("t.html")
	if strings.Count(csv, "\n") != rows+1 || !strings.Contains(csv[:strings.IndexByte(csv, '\n')], column) {
		t.Errorf("CSV has %d lines, want %d and %s:\n%s", strings.Count(csv, "\n"), rows+1, column, csv)
	}
	var objects []map[string]any
	if err := json.Unmarshal([]byte(read("t.json")), &objects); err != nil || len(objects) != rows {
		t.Errorf("JSON: %v, %d objects, want %d", err, len(objects), rows)
	}
	if !strings.Contains(page, `"name":"`+column+`"`) {
		t.Errorf("the page does not have %s", column)
	}
	if table := read("t.parquet"); !strings.HasPrefix(table, "PAR1") || !strings.Contains(table, column) {
		t.Errorf("Parquet: %.20q", table)
	}
}

// printed returns the standard output of a command that must succeed.
func printed(t *testing.T, args []string) []byte {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(args, nil, &out, &errs); code != 0 {
		t.Fatalf("%v: exit %d: %s", args, code, &errs)
	}
	return out.Bytes()
}

// JSON, pages and journals contain choices that cannot run, with the reason.
func TestPlanChoiceThatCannotRun(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	text := printed(t, []string{"plan", "--input-tokens=2000", "--output-tokens=20", "--request-count=20", "--arrival-interval-ms=1000", "--slo=p99:ttft=2s",
		"--gpu=h100", "--model=llama-3.1-70b", "--try=tp=1,4", "--resamples=1", "--json", "--out=plan.html", "--out=plan.csv", "--journal=done.jsonl"})
	var found plans.PlanDocument
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	const reason = "llama-3.1-70b does not fit on h100 with tp 1"
	if v := found.Variants; len(v) != 2 || !strings.HasPrefix(v[0].CannotRun, reason) || v[0].At != nil || v[1].CannotRun != "" || found.Best == nil || found.Best.Settings != "tp=4" {
		t.Errorf("%s", text)
	}
	if page, err := os.ReadFile("plan.html"); err != nil || !bytes.Contains(page, []byte("cannot run: "+reason)) {
		t.Errorf("%v: the page has no reason", err)
	}
}

// The page has the clusters of each hour. --growth adds requests to each hour, and adds no hours.
func TestPlanPageByHour(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.html")
	text := printed(t, []string{"plan", "--input-tokens=2000", "--output-tokens=20", "--request-count=61", "--arrival-interval-ms=180000", "--slo=p99:ttft=2s",
		"--resamples=0", "--front=false", "--by-hour", "--growth=2", "--json", "--out", path})
	var found plans.PlanDocument
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	hours, requests := found.ByHour.Hours, 0
	for i := range hours {
		requests += hours[i].Requests
	}
	if len(hours) != 3 && len(hours) != 4 || requests < 121 || requests > 123 {
		t.Errorf("%d requests in %d hours, want twice 61 in the 3 hours of the trace", requests, len(hours))
	}
	page, err := os.ReadFile(path)
	for _, want := range []string{"By hour, with 2 times the requests in each hour", "Ways to size the cluster"} {
		if err != nil || !bytes.Contains(page, []byte(want)) {
			t.Errorf("%v: the page lacks %q", err, want)
		}
	}
}

// A file of candidates has a row for each choice of settings, with its outcome.
func TestPlanCandidates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "choices.csv")
	printed(t, []string{"plan", "../../testdata/traces/burst.jsonl", "--block-size", "64", "--slo", "p99:ttft=2s", "--gpu", "h100", "--model", "llama-3.1-70b", "--vary", "tp,router",
		"--resamples", "2", "--front=false", "--time-budget", "0", "--candidates", path})
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, row := range rows[1:] {
		count[row[1]]++
		if gpus, reason := row[6], row[len(row)-1]; (gpus == "") != (row[1] == "cannot run" || strings.HasPrefix(reason, "misses with up to")) {
			t.Errorf("%q", row)
		}
	}
	if len(rows) != 1+4*2 || count["recommended"] != 1 || count["cannot run"] < 2 {
		t.Errorf("%d rows: %v", len(rows), count)
	}
}
