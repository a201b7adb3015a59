package calibrate

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// writeLogs writes the logs of pods that take so many ms for a token.
func writeLogs(t *testing.T, dir string, times ...float64) {
	t.Helper()
	for i, ms := range times {
		text := &strings.Builder{}
		for k := range 10 {
			running := 30 + k%3
			fmt.Fprintf(text, "INFO Engine 000: Avg prompt throughput: 4000.0 tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, Waiting: 0 reqs, GPU KV cache usage: 9.1%%, Prefix cache hit rate: 38.0%%\n", 1000*float64(running)/ms, running)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("vllm-pod%d.log", i+1)), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A pod that is slower than its peers is found by its log, and named.
func TestSlowPod(t *testing.T) {
	dir := t.TempDir()
	writeLogs(t, dir, 15, 15.2, 18, 14.9)
	pods, err := readPods(dir)
	if err != nil || len(pods) != 4 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	m := &Measured{pods: pods, Requests: []Request{{Input: 500, Output: 200}}}
	m.noteSlow()
	if notes := m.Settings.Notes; len(notes) != 1 || !strings.Contains(notes[0], "vllm-pod3.log is slow: 18.0 ms") {
		t.Errorf("%q, want the third pod", notes)
	}
	c := &Compared{}
	var records []collector.Record
	for i := range 8 {
		records = append(records, collector.Record{Worker: sim.WorkerID(i % 4), InputTokens: 100, OutputTokens: 10, Reused: 40, Admit: sim.Time(i)})
		c.Requests = append(c.Requests, Both{Worker: i % 4, InputTokens: 100, OutputTokens: 10, Cached: [2]int{-1, 40}})
	}
	c.addPods(pods, records)
	if len(c.Sides) != 5 || c.Sides[0].Simulated != 0.4 || !near(c.Sides[0].Measured, 0.38) || c.Sides[1].Name != "share of tokens, vllm-pod4.log" || c.Sides[1].Simulated != 0.25 {
		t.Errorf("%+v", c.Sides)
	}
}

// What a server logs as it starts, and too few lines, say nothing of how fast it is.
func TestStartOfPods(t *testing.T) {
	rows := func(lines int, stall, ms float64) (all []podRow) {
		for k := range lines {
			r := podRow{running: 30 + float64(k%3), hit: math.NaN(), at: float64(86390 + 10*k), steady: true}
			if r.generated = 1000 * r.running / ms; k < 2 {
				r.running, r.generated = stall*r.running, r.generated/stall
			}
			if r.at >= secondsOfDay {
				r.at -= secondsOfDay
			}
			all = append(all, r)
		}
		return append([]podRow{{at: 86000, hit: math.NaN()}}, all...)
	}
	for _, c := range []struct {
		lines     int
		stall, ms float64
		slow      bool
	}{{10, 4, 15, false}, {10, 1, 16.8, false}, {40, 4, 15, false}, {40, 1, 16.8, true}} {
		m := &Measured{Requests: []Request{{Input: 500, Output: 200}}}
		for i := range 4 {
			stall, ms := 1.0, 15.0
			if i == 2 {
				stall, ms = c.stall, c.ms
			}
			m.pods = append(m.pods, newPod(fmt.Sprintf("vllm-pod%d.log", i+1), rows(c.lines, stall, ms)))
		}
		if m.noteSlow(); (len(m.Settings.Notes) > 0) != c.slow {
			t.Errorf("%+v: %q", c, m.Settings.Notes)
		}
		if m.findSpeeds(4); (m.speeds != nil) != c.slow {
			t.Errorf("%+v: speeds are %v", c, m.speeds)
		}
	}
}

// The hit rate of a log is that of its last line, of as many requests of the replay.
func TestHitRateOfLogs(t *testing.T) {
	var rows []podRow
	for k := range 10 {
		rows = append(rows, podRow{running: 1, generated: 10, hit: 0.5 - float64(k)/40, at: math.NaN(), steady: true})
	}
	var records []collector.Record
	for i := range 1500 {
		r := collector.Record{InputTokens: 100, OutputTokens: 1, Reused: 100, Admit: sim.Time(i)}
		if i >= 500 {
			r.Reused = 30
		}
		records = append(records, r)
	}
	c := &Compared{}
	if c.addPods([]pod{newPod("vllm.log", rows)}, records); len(c.Sides) != 1 || c.Sides[0].Name != hitRateName || !near(c.Sides[0].Measured, 0.275) || !near(c.Sides[0].Simulated, 0.3) {
		t.Errorf("%+v, want 27.5 and 30 %%", c.Sides)
	}
}

// The settings of one run are told to another of the same servers.
func TestSettingsOfOthers(t *testing.T) {
	one := writeTraceRun(t, map[string]string{"vllm-a.log": serverLog, "vllm-b.log": serverLog})
	other := writeTraceRun(t, map[string]string{})
	runs, err := ReadAll([]string{other, one}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := &runs[0].Settings, &runs[1].Settings; a.MaxSeqs != 64 || a.Blocks != 1000 || a.Pods != 2 || b.Pods != 2 || a.Graphs != nil || a.Version != b.Version {
		t.Errorf("%+v\nand %+v, want the same", a, b)
	}
}

// Where a router chose, its choice stands; otherwise the server with the least to do is taken.
func TestTakenRequests(t *testing.T) {
	m, err := Read(measure(t, 60), 0)
	if err != nil {
		t.Fatal(err)
	}
	m.Settings.Pods, m.Settings.Router = 2, "router.yaml"
	all := make([]int, len(m.Requests))
	for i := range all {
		all[i] = 1
	}
	all[3] = 0
	_, replayed, err := prepareRun(t.Context(), m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	replay := func(_ *Measured, p *timing.Profile, _ uint64) (*harness.Result, error) {
		if p.Engine == nil || p.Engine.Version != m.Settings.Version {
			t.Errorf("it is replayed as on %+v, want the release of the server", p.Engine)
		}
		c := collector.New(len(all))
		for i, w := range all {
			c.Arrive(&sim.Request{ID: sim.RequestID(i), InputTokens: 1, OutputTokens: 1}, 0)
			c.Place(sim.RequestID(i), sim.WorkerID(w))
		}
		return &harness.Result{Collector: c}, nil
	}
	fitted, _ := splitParts(m, 0)
	if _, err := routeRuns(t.Context(), []*Simulation{replayed}, []*Measured{m}, Options{Replay: replay}, &training{on: fitted}); err != nil {
		t.Fatal(err)
	}
	p := truth()
	out, record := Outcome{}, ledger{}
	if err := replayed.runRecorded(&p, &out, &record); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(record.of, all) {
		t.Errorf("engines %v took the requests, want %v", record.of, all)
	}
}

// Servers are fresh where many of the first requests wait for long and few later on; once nobody
// does, all of them have stood still.
func TestFresh(t *testing.T) {
	m := &Measured{Client: true}
	for i := range 400 {
		m.Requests = append(m.Requests, Request{Arrival: float64(i) / 10, First: float64(i)/10 + 0.1})
	}
	w := &timing.Warmup{Requests: 8, Time: 4}
	if m.Fresh() || m.WarmupOf(w).Given() {
		t.Error("servers are fresh where nobody waits")
	}
	for i := 20; i < 70; i++ {
		m.Requests[i].First += 3
	}
	if got := m.WarmupOf(w); got.Requests != 8 || got.Time != 4000 || int(got.Until+0.5) != 3900 {
		t.Errorf("%+v, want one that begins before 3.9 s: requests wait up to 6.9 s", got)
	}
	if cut := m.cutAt(5); len(cut.Requests) != 50 || cut.WarmupOf(w) != m.WarmupOf(w) {
		t.Errorf("the beginning of the run is not as fresh as the run: %+v", cut.WarmupOf(w))
	}
	if m.WarmupOf(nil).Given() {
		t.Error("fresh servers stand still though no profile says so")
	}
	for i := 200; i < 300; i++ {
		m.Requests[i].First += 3
	}
	if m.Fresh() {
		t.Error("servers are fresh where requests wait later on, too")
	}
}

// What arrives in the beginning that is to be ignored is neither fitted to nor judged.
func TestIgnore(t *testing.T) {
	m := &Measured{Name: "run"}
	for i := range 100 {
		m.Requests = append(m.Requests, Request{Arrival: float64(i) / 10, First: float64(i)/10 + 0.1})
	}
	if err := m.Ignore(3); err != nil {
		t.Fatal(err)
	}
	parts, _ := splitParts(m, 0)
	if p := parts[0]; p.name != "all from 3 s on" || len(p.chosen) != 70 || len(p.withoutWarmUp(m)) != 70 || p.chosen[0] != 30 {
		t.Errorf("%s: %d requests", p.name, len(p.chosen))
	}
	if err := m.Ignore(0); err != nil || len(m.judged()) != 100 || m.nameAll() != "all" {
		t.Errorf("%v, %d of %s, want all", err, len(m.judged()), m.nameAll())
	}
	if err := m.Ignore(9); err == nil || !strings.Contains(err.Error(), "run: 10 requests arrive after the first 9 s") {
		t.Errorf("%v, want that too few are left", err)
	}
}
