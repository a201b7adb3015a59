package measured

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeLogs writes the logs of pods with times[i] ms per token.
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

// TestSlowPod checks that a pod that is slower than its peers is found by its log and named.
func TestSlowPod(t *testing.T) {
	dir := t.TempDir()
	writeLogs(t, dir, 15, 15.2, 18, 14.9)
	pods, err := ReadPods(dir)
	if err != nil || len(pods) != 4 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	m := &Run{Pods: pods, Requests: []Request{{Input: 500, Output: 200}}}
	m.noteSlow()
	if notes := m.Settings.Notes; len(notes) != 1 || !strings.Contains(notes[0], "vllm-pod3.log is slow: 18.0 ms") {
		t.Errorf("%q, want the third pod", notes)
	}
	var rows []podRow
	for k := range 10 {
		rows = append(rows, podRow{running: 1, generated: 10, hit: 0.5 - float64(k)/40, at: math.NaN(), steady: true})
	}
	if p := newPod("vllm.log", rows); !near(p.Hit, 0.275) || p.Latest != 1000 {
		t.Errorf("the hit rate of a log is %v of %d requests, want that of its last line", p.Hit, p.Latest)
	}
}

// TestStartOfPods checks that the log lines of a server's start, or too few lines, do not count for its speed.
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
		m := &Run{Requests: []Request{{Input: 500, Output: 200}}}
		for i := range 4 {
			stall, ms := 1.0, 15.0
			if i == 2 {
				stall, ms = c.stall, c.ms
			}
			m.Pods = append(m.Pods, newPod(fmt.Sprintf("vllm-pod%d.log", i+1), rows(c.lines, stall, ms)))
		}
		if m.noteSlow(); (len(m.Settings.Notes) > 0) != c.slow {
			t.Errorf("%+v: %q", c, m.Settings.Notes)
		}
		if m.FindSpeeds(4); (m.Speeds != nil) != c.slow {
			t.Errorf("%+v: speeds are %v", c, m.Speeds)
		}
	}
}
