package calibrate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/calibrate/measured/measuredtest"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// TestHitRateOfLogs checks that the hit rate of a log is the one in its last line. The log's hit rate is compared
// with that of the same number of requests in the replay.
func TestHitRateOfLogs(t *testing.T) {
	var records []collector.Record
	for i := range 1500 {
		r := collector.Record{InputTokens: 100, OutputTokens: 1, Reused: 100, Admit: sim.Time(i)}
		if i >= 500 {
			r.Reused = 30
		}
		records = append(records, r)
	}
	c := &Compared{}
	if c.addPods([]measured.Pod{{Name: "vllm.log", Hit: 0.275, Latest: 1000}}, records); len(c.Sides) != 1 || c.Sides[0].Name != hitRateName || !near(c.Sides[0].Measured, 0.275) || !near(c.Sides[0].Simulated, 0.3) {
		t.Errorf("%+v, want 27.5 and 30 %%", c.Sides)
	}
}

// TestSettingsOfOthers checks that the settings of one run are used for another run of the same servers.
func TestSettingsOfOthers(t *testing.T) {
	one := measuredtest.WriteTraceRun(t, map[string]string{"vllm-a.log": measuredtest.ServerLog, "vllm-b.log": measuredtest.ServerLog})
	other := measuredtest.WriteTraceRun(t, map[string]string{})
	runs, err := ReadAll([]string{other, one}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := &runs[0].Settings, &runs[1].Settings; a.MaxSeqs != 64 || a.Blocks != 1000 || a.Pods != 2 || b.Pods != 2 || a.Graphs != nil || a.Version != b.Version {
		t.Errorf("%+v\nand %+v, want the same", a, b)
	}
}

// TestTakenRequests checks that the choice of a router is kept if it is known. Otherwise, the server with the least
// load gets the request.
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

// TestFresh checks that servers are fresh if many of the first requests wait for a long time and few later ones do.
// Once no request has a long wait, all servers have had their stall.
func TestFresh(t *testing.T) {
	m := &Measured{Run: measured.Run{Client: true}}
	for i := range 400 {
		m.Requests = append(m.Requests, measured.Request{Arrival: float64(i) / 10, First: float64(i)/10 + 0.1})
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

// TestIgnore checks that ignored first arrivals are neither fitted to nor judged.
func TestIgnore(t *testing.T) {
	m := &Measured{Run: measured.Run{Name: "run"}}
	for i := range 100 {
		m.Requests = append(m.Requests, measured.Request{Arrival: float64(i) / 10, First: float64(i)/10 + 0.1})
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

// TestSharesOfServers checks that the shares of tokens and the hit rate of servers are compared with the values of
// workers.
func TestSharesOfServers(t *testing.T) {
	c := &Compared{}
	var records []collector.Record
	for i := range 8 {
		records = append(records, collector.Record{Worker: sim.WorkerID(i % 4), InputTokens: 100, OutputTokens: 10, Reused: 40, Admit: sim.Time(i)})
		c.Requests = append(c.Requests, Both{Worker: i % 4, InputTokens: 100, OutputTokens: 10, Cached: [2]int{-1, 40}})
	}
	var pods []measured.Pod
	for i, served := range []float64{20, 19, 15, 21} {
		pods = append(pods, measured.Pod{Name: fmt.Sprintf("vllm-pod%d.log", i+1), Served: served, Hit: 0.38, Latest: 1000})
	}
	c.addPods(pods, records)
	if len(c.Sides) != 5 || c.Sides[0].Simulated != 0.4 || !near(c.Sides[0].Measured, 0.38) || c.Sides[1].Name != "share of tokens, vllm-pod4.log" || c.Sides[1].Simulated != 0.25 {
		t.Errorf("%+v", c.Sides)
	}
}
