package calibrate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler/timing"
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
	s := &Settings{}
	s.noteSlow(pods)
	if len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "vllm-pod3.log is slow: 18.0 ms") {
		t.Errorf("%q, want the third pod", s.Notes)
	}
	c := &Compared{}
	for i := range 8 {
		c.Requests = append(c.Requests, Both{Worker: i % 4, InputTokens: 100, OutputTokens: 10, Cached: [2]int{-1, 40}})
	}
	c.addPods(pods)
	if len(c.Sides) != 5 || c.Sides[0].Simulated != 0.4 || !near(c.Sides[0].Measured, 0.38) || c.Sides[1].Name != "share of tokens, vllm-pod4.log" || c.Sides[1].Simulated != 0.25 {
		t.Errorf("%+v", c.Sides)
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
	_, sim, err := prepareRun(t.Context(), m, Options{Route: func(*Measured, *timing.Profile) ([]int, error) { return all, nil }})
	if err != nil {
		t.Fatal(err)
	}
	p := truth()
	out, record := Outcome{}, ledger{}
	if err := sim.runRecorded(&p, &out, &record); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(record.of, all) {
		t.Errorf("engines %v took the requests, want %v", record.of, all)
	}
}
