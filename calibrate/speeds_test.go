package calibrate

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler/timing"
)

// podsRun returns a run of four simulated servers with the given speeds. The rows of the run have the server that
// answered.
func podsRun(t *testing.T, count int, speeds ...float64) *Measured {
	t.Helper()
	m, err := Read(measure(t, count), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Requests {
		m.Requests[i].Arrival /= 3
	}
	m.Settings.Pods = len(speeds)
	sim, err := newSimulation(m, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	sim.speeds = speeds
	p, out, record := truth(), Outcome{}, ledger{}
	p.Graphs = m.Settings.Graphs
	if err := sim.runRecorded(&p, &out, &record); err != nil {
		t.Fatal(err)
	}
	for i := range m.Requests {
		r := &m.Requests[i]
		r.First, r.Last, r.Scheduled, r.Queued = out.First[i], out.Last[i], out.Scheduled[i], math.NaN()
		r.Server = fmt.Sprintf("pod-%d", record.of[i])
	}
	return m
}

// writePodLogs writes the log lines of the servers of a run every 0.6 s. In this time, about as many requests start
// and end as in 10 s of a large model.
func writePodLogs(t *testing.T, m *Measured, dir string) {
	t.Helper()
	for pod := range m.Settings.Pods {
		text := &strings.Builder{}
		const apart = 0.6
		for at := apart; at < 140; at += apart {
			running, tokens := 0, 0.0
			for i := range m.Requests {
				r := &m.Requests[i]
				if r.Server != fmt.Sprintf("pod-%d", pod) {
					continue
				}
				if r.First <= at && at < r.Last {
					running++
				}
				part := (min(at, r.Last) - max(at-apart, r.First)) / (r.Last - r.First)
				tokens += max(part, 0) * float64(r.Output-1)
			}
			fmt.Fprintf(text, "INFO Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, Waiting: 0 reqs, GPU KV cache usage: 9.1%%, Prefix cache hit rate: 0.0%%\n", tokens/apart, running)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("vllm-pod%d.log", pod+1)), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSpeedsOfServers checks that the speed of a slow server follows from rows with the server that answered, and
// from logs. Equally fast servers have no speeds.
func TestSpeedsOfServers(t *testing.T) {
	for _, speed := range []float64{1, 0.91, 0.8} {
		m := podsRun(t, 4000, 1, 1, speed, 1)
		byRows := *m
		byRows.FindSpeeds(4)
		dir, byLogs := t.TempDir(), *m
		writePodLogs(t, m, dir)
		byLogs.Requests = slices.Clone(m.Requests)
		for i := range byLogs.Requests {
			byLogs.Requests[i].Server = ""
		}
		var err error
		if byLogs.Pods, err = measured.ReadPods(dir); err != nil {
			t.Fatal(err)
		}
		byLogs.FindSpeeds(4)
		t.Logf("rows %v, logs %v", byRows.Speeds, byLogs.Speeds)
		for i, m := range []*Measured{&byRows, &byLogs} {
			if speed == 1 {
				if m.Speeds != nil || m.Slow != nil {
					t.Errorf("servers that are alike have the speeds %v", m.Speeds)
				}
				continue
			}
			if len(m.Speeds) != 4 || math.Abs(m.Speeds[2]/speed-1) > []float64{0.01, 0.05}[i] || m.Speeds[0] != 1 || m.Speeds[3] != 1 {
				t.Errorf("%v, want a third one of %v", m.Speeds, speed)
			}
		}
	}
}

// TestSpeedsForWorkers checks that speeds are returned only for as many workers as servers. There are none if the
// servers are too few to compare.
func TestSpeedsForWorkers(t *testing.T) {
	m := podsRun(t, 1200, 1, 0.7, 1)
	if m.FindSpeeds(2); m.Speeds != nil {
		t.Errorf("of two servers, where three answered, the speeds are %v", m.Speeds)
	}
	if m.FindSpeeds(0); len(m.SpeedsFor(3)) != 3 || m.SpeedsFor(4) != nil || len(m.SpeedsFor(3)) != 3 {
		t.Errorf("speeds are %v, want those of three workers", m.Speeds)
	}
	n := 0
	for _, note := range m.Settings.Notes {
		if strings.Contains(note, "pod-1 is ") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d notes of %q name the slow server, want one", n, m.Settings.Notes)
	}
	if m = podsRun(t, 600, 1, 0.7); m.Settings.Pods != 2 {
		t.Fatal(m.Settings.Pods)
	}
	if m.FindSpeeds(2); m.Speeds != nil {
		t.Errorf("two servers have the speeds %v, though it is unknown which is the slow one", m.Speeds)
	}
}

// TestSlowServerIsSimulated checks that a slow server does not change the fit to all servers, and that the profile
// names it.
func TestSlowServerIsSimulated(t *testing.T) {
	long.Only(t)
	m := podsRun(t, 1200, 1, 1, 0.8, 1)
	m.FindSpeeds(4)
	if m.Client = true; len(m.Taken) != len(m.Requests) {
		t.Fatalf("who answered %d of %d requests is known", len(m.Taken), len(m.Requests))
	}
	r, err := Run(t.Context(), m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Profile.Slow; len(got) != 1 || got[0].Server != "pod-2" || math.Abs(got[0].Share-0.25) > 0.03 {
		t.Errorf("slow servers are %+v, want the third by 25 %%", got)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "pod-2 is 2") || !strings.Contains(notes, "simulated so") || strings.Contains(notes, "is not told: the one") {
		t.Errorf("notes are %q", r.Notes)
	}
	was := truth()
	step := timing.Step{Tokens: 8, Requests: 8, Context: 2400}
	if got := r.Profile.Parameters.Step(&step) / was.Step(&step); math.Abs(got-1) > 0.015 {
		t.Errorf("a pass takes %+.1f %% longer than an ordinary server's", 100*(got-1))
	}
}
