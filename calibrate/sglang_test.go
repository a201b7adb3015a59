package calibrate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured/measuredtest"
	"github.com/replay-llm/replay/scheduler/timing"
)

// launched is the start command of the server of closed loops.
const launched = "python3 -m sglang.launch_server --model-path /models/nobody-knows --tensor-parallel-size 4 \\\n --page-size=64 --max-running-requests 32 --trust-remote-code\n"

// sheets returns known facts about this server that are not in the command.
func sheets() map[string]any { return map[string]any{"device_name": "gb300", "model": "kimi-k2.5"} }

// writeTurns writes rows in the order of completion into DIR/raw_concN.jsonl. writeTurns writes a summary and the
// command next to this file.
func writeTurns(t *testing.T, dir string, inFlight int, rows []map[string]any) string {
	t.Helper()
	var text bytes.Buffer
	for _, r := range rows {
		if err := json.NewEncoder(&text).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, fmt.Sprintf("raw_conc%d.jsonl", inFlight))
	measuredtest.Write(t, path, text.String())
	measuredtest.Write(t, filepath.Join(dir, fmt.Sprintf("conc%d.json", inFlight)), fmt.Sprintf(`{"concurrency":%d}`, inFlight))
	measuredtest.Write(t, filepath.Join(dir, "command.txt"), launched)
	return path
}

// serveTurns simulates a server of SGLang that answers sessions, with inFlight concurrent turns.
func serveTurns(t *testing.T, dir string, inFlight int) string {
	t.Helper()
	var rows []map[string]any
	for turn := range 5 {
		for session := range 36 {
			n := 30 + (session*37+turn*61)%140
			rows = append(rows, map[string]any{"isl": 1200 + session + turn*(300+session*20), "osl": n, "ttft_ms": 60, "e2e_ms": 60 + 10*n})
		}
	}
	m, err := readKnown(writeTurns(t, dir, inFlight, rows), 0, sheets())
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSimulation(m, m.Prompts, false)
	if err != nil {
		t.Fatal(err)
	}
	truth, out := truthOfTurns(m), Outcome{Way: timing.Way{First: 8e-3}}
	if err := s.Run(&truth, &out, nil); err != nil {
		t.Fatal(err)
	}
	order := m.judged()
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(out.Last[a], out.Last[b]) })
	rows = rows[:0]
	for _, i := range order {
		first, last := out.First[i]-out.Begun[i]+out.Way.First, out.Last[i]-out.Begun[i]+out.Way.First
		rows = append(rows, map[string]any{"isl": m.Requests[i].Input, "osl": m.Requests[i].Output, "ttft_ms": 1000 * first, "e2e_ms": 1000 * last})
	}
	return writeTurns(t, dir, inFlight, rows)
}

func truthOfTurns(m *Measured) timing.Parameters {
	f, _ := m.Settings.Fit()
	p := timing.Roofline(&f).Parameters
	p.Base, p.MixedBase = 5e-3, 80e-3
	p.Experts *= 1.2
	return p
}

// TestFitSGLang checks that turns without arrivals are replayed as a closed loop under SGLang's scheduler. The fit
// finds the fixed times of passes and predicts the times at another concurrency.
func TestFitSGLang(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, n := range []int{2, 8, 24} {
		serveTurns(t, dir, n)
	}
	runs, err := ReadAll([]string{dir}, 0, sheets())
	if err != nil {
		t.Fatal(err)
	}
	r, err := RunAll(t.Context(), runs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	p, truth := &r.Profile.Parameters, truthOfTurns(runs[0])
	if r.Profile.Engine.Kind != timing.SGLang || math.Abs(p.MixedBase/truth.MixedBase-1) > 0.25 || math.Abs(p.Base/truth.Base-1) > 0.15 {
		t.Errorf("%+v of %+v, want fixed times of %v and %v s\n%s", p, r.Profile.Engine, truth.Base, truth.MixedBase, &b)
	}
	held := 0
	for _, c := range r.Checks {
		if e := c.Errors[1]; c.HeldOut {
			held++
			if e.Metric != "TPOT" || math.Abs(e.Mean) > 0.04 {
				t.Errorf("%s judged on %s: %+v, want TPOT within 4 %%\n%s", c.Fitted, c.Judged, e, &b)
			}
		}
	}
	if held != 3 || !strings.Contains(b.String(), "SGLang") {
		t.Errorf("%d concurrencies held out, want 3\n%s", held, &b)
	}
}

// TestLanes checks that a closed loop continues in lanes without a gap and ends with its sessions. There is one lane
// for each turn in flight at the start.
func TestLanes(t *testing.T) {
	path := serveTurns(t, t.TempDir(), 8)
	m, err := ReadTimes(path)
	if err != nil {
		t.Fatal(err)
	}
	ends, last := map[int]float64{}, 0.0
	for i := range m.Requests {
		r := &m.Requests[i]
		if !near(r.Arrival, ends[r.Lane]) || r.Arrival < last {
			t.Fatalf("request %d arrives at %v in lane %d, which is free at %v; the one before it at %v", i, r.Arrival, r.Lane, ends[r.Lane], last)
		}
		ends[r.Lane], last = r.Last, r.Arrival
	}
	if len(ends) != 8 || len(m.Prompts.IDs) != 180 {
		t.Errorf("%d lanes and %d prompts, want 8 and 180", len(ends), len(m.Prompts.IDs))
	}
}

// TestBadTurns checks that missing settings of turns are requested, and that errors name the file and the line.
func TestBadTurns(t *testing.T) {
	rows := []map[string]any{{"isl": 100, "osl": 10, "ttft_ms": 5, "e2e_ms": 50}}
	good := slices.Repeat(rows, 30)
	for _, c := range []struct {
		rows []map[string]any
		rest string // other files in the directory
		want string
	}{
		{good, "conc4.json", "raw_conc4.jsonl: the concurrency is unknown: requires concurrency in conc4.json in the same folder, or --max-in-flight"},
		{rows, "", "raw_conc4.jsonl: 1 requests, must be at least 20"},
		{append(good[:25:25], map[string]any{"isl": 100, "osl": 10, "ttft_ms": 60, "e2e_ms": 50}), "", "raw_conc4.jsonl:26: must have isl and osl in tokens, and ttft_ms and e2e_ms of at least that"},
		{append(good[:25:25], map[string]any{"isl": 100, "osl": 10}), "", "raw_conc4.jsonl:26: must have isl and osl"},
	} {
		dir := t.TempDir()
		path := writeTurns(t, dir, 4, c.rows)
		if c.rest != "" {
			if err := os.Remove(filepath.Join(dir, c.rest)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := ReadTimes(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	dir := t.TempDir()
	path := writeTurns(t, dir, 4, good)
	measuredtest.Write(t, filepath.Join(dir, "command.txt"), "vllm serve x\n")
	if _, err := ReadTimes(path); err == nil || !strings.Contains(err.Error(), "no sglang.launch_server") {
		t.Errorf("%v, want what command.txt is to hold", err)
	}
}

// TestRefuseSGLang checks that SGLang servers are refused if the simulated scheduler does not support their settings.
func TestRefuseSGLang(t *testing.T) {
	rows := slices.Repeat([]map[string]any{{"isl": 100, "osl": 10, "ttft_ms": 5, "e2e_ms": 50}}, 30)
	for _, c := range []struct{ more, want string }{
		{"--speculative-algorithm EAGLE", "speculative_algorithm is EAGLE, must be none"},
		{"--dp-size 2 --enable-dp-attention", "2 ranks or servers of SGLang that share the requests, must be 1"},
		{"--chunked-prefill-size 100", "chunked_prefill_size is 100, must be"},
	} {
		dir := t.TempDir()
		path := writeTurns(t, dir, 4, rows)
		measuredtest.Write(t, filepath.Join(dir, "command.txt"), strings.TrimSpace(launched)+" "+c.more)
		if _, err := readKnown(path, 0, sheets()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.more, err, c.want)
		}
	}
	m, err := readKnown(writeTurns(t, t.TempDir(), 4, rows), 0, nil)
	if err != nil || !slices.ContainsFunc(m.Settings.Notes, func(n string) bool { return strings.Contains(n, "never full") }) {
		t.Errorf("%v, %+v: want a KV cache that is never full", err, m)
	}
	if _, err := newSimulation(m, m.Prompts, true); err == nil {
		t.Error("SGLang by the rules of the reference, want a refusal")
	}
}
