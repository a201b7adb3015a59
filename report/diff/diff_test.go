package diff

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/rundir"
)

// side runs a small workload.
func side(t *testing.T, change func(*replay.Spec)) *Side {
	t.Helper()
	args := engineargs.Default()
	spec := replay.Spec{
		Synthetic: loadgen.Synthetic{Requests: 20, Input: 3000, Output: 12, Interval: 10, Turns: 2, Delay: 5},
		Speedup:   1, Topology: replay.Topology{Pools: replay.OnePool(args, 3)},
	}
	change(&spec)
	result, err := spec.Run(context.Background(), replay.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	run := &rundir.Run{Config: rundir.SettingsOf(spec.Recorded())}
	return &Side{Name: "x", Report: result.Report, Run: run, Rows: requests.Collect(result.Collector, nil, nil, nil)}
}

// Two runs of one spec are equal, although their real times differ.
func TestSame(t *testing.T) {
	a, b := side(t, func(*replay.Spec) {}), side(t, func(*replay.Spec) {})
	d := Compare(a, b, Options{Top: 5})
	if !d.Same || len(d.Settings) > 0 || d.Compared < 60 || d.Requests.Joined != 40 || d.Requests.Parting != nil {
		t.Errorf("%+v", d)
	}
	b.Rows = append([]requests.Row(nil), b.Rows...)
	b.Rows[17].Second++
	d = Compare(a, b, Options{Top: 5})
	if d.Same || len(d.Metrics) > 0 || d.Requests.Moved != 1 || d.Requests.Parting.What != "second token" || d.Requests.Parting.Request.ID != 17 {
		t.Errorf("one token moved: %+v, %+v", d, d.Requests)
	}
}

// A different number of workers is found, and also the first request on another worker: the third request goes to the
// third worker or to the first.
func TestDifferent(t *testing.T) {
	a, b := side(t, func(*replay.Spec) {}), side(t, func(s *replay.Spec) { s.Topology = s.Resize(2) })
	a.Name, b.Name = "three", "two"
	d := Compare(a, b, Options{Top: 3})
	if d.Same || len(d.Settings) != 1 || d.Settings[0] != (Setting{"workers", "3", "2"}) {
		t.Errorf("settings %v", d.Settings)
	}
	p := d.Requests.Parting
	if p == nil || p.Request.ID != 2 || p.AtMS != 20 || p.What != "worker" || p.A != "worker 2" || p.B != "worker 0" {
		t.Errorf("parting %+v", p)
	}
	if len(d.Requests.Most) != 3 || d.Requests.Most[0].change < d.Requests.Most[2].change || d.Requests.Moved < 30 {
		t.Errorf("requests %+v", d.Requests)
	}
	var text, object bytes.Buffer
	if err := d.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"A: three\nB: two\n", "workers  3  2", "mean_ttft_ms", "First difference at 20 ms: worker of request 2", "40 in both"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("no %q in\n%s", part, &text)
		}
	}
	if strings.Contains(text.String(), "wall") {
		t.Error("real time is compared")
	}
	if err := d.WriteJSON(&object); err != nil {
		t.Fatal(err)
	}
	var again Diff
	if err := json.Unmarshal(object.Bytes(), &again); err != nil || again.Requests.Moved != d.Requests.Moved {
		t.Errorf("%v; %s", err, &object)
	}
}

// Requests that only one side contains are listed, the earliest first.
func TestOnlyOne(t *testing.T) {
	a, b := side(t, func(*replay.Spec) {}), side(t, func(*replay.Spec) {})
	a.Rows = append(a.Rows[:3:3], a.Rows[4:]...)
	b.Rows = append(b.Rows[:5:5], b.Rows[6:]...)
	r := Compare(a, b, Options{}).Requests
	if r.OnlyA != 1 || r.OnlyB != 1 || r.Joined != 38 || r.Parting == nil || r.Parting.Request.ID != 3 || r.Parting.B != "arrives" {
		t.Errorf("%+v, parting %+v", r, r.Parting)
	}
}

// A report file is compared by its values only, within a tolerance.
func TestReportAlone(t *testing.T) {
	a, b := side(t, func(*replay.Spec) {}), side(t, func(*replay.Spec) {})
	a.Run, a.Rows = nil, nil
	b.Report.TTFT.Mean *= 1 + 1e-12
	if d := Compare(a, b, Options{}); d.Same || len(d.Metrics) != 1 || d.Metrics[0].Key != "mean_ttft_ms" || d.Requests != nil {
		t.Errorf("%+v", d)
	}
	if d := Compare(a, b, Options{Tolerance: 1e-9}); !d.Same {
		t.Errorf("%+v", d)
	}
}

// Settings that only one side has are one line per group.
func TestFolded(t *testing.T) {
	got := foldSettings([]Setting{
		{"router", "1", "2"}, {"router_config.a", "", "1"}, {"router_config.b.c", "", "2"}, {"router_config.d", "1", "2"},
		{"scale.0.at", "5", ""}, {"scale.0.workers", "2", ""}, {"seed", "", "3"}, {"trace.path", "", "x"},
	})
	want := []Setting{
		{"router", "1", "2"}, {"router_config", "", "(2 settings)"}, {"router_config.d", "1", "2"},
		{"scale", "(2 settings)", ""}, {"seed", "", "3"}, {"trace.path", "", "x"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
