package calibrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/calibrate/measured/measuredtest"
	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/scheduler/timing"
)

// truth returns the parameters of a simulated server. Fits must find these parameters again.
func truth() timing.Parameters {
	return timing.Parameters{Weights: 9e-3, Token: 60e-6, Context: 0.05e-6, Mixed: 0.08e-6, Knee: 2}
}

// measure simulates a server that answers requests, and writes records as a real server does.
func measure(t *testing.T, count int) string {
	t.Helper()
	p := truth()
	return measureServer(t, measuredtest.Meta(), count, func(s *measured.Settings) timing.Parameters {
		p.Graphs = s.Graphs
		return p
	})
}

// measureServer does the same as measure for a server with the settings of a meta.json. The server's pass times
// follow from the result of parameters.
func measureServer(t *testing.T, meta string, count int, parameters func(*measured.Settings) timing.Parameters) string {
	t.Helper()
	dir := t.TempDir()
	m := &Measured{}
	if err := json.Unmarshal([]byte(meta), new(map[string]any)); err != nil {
		t.Fatal(err)
	}
	measuredtest.Write(t, filepath.Join(dir, "meta.json"), meta)
	var err error
	if m.Settings, err = measured.ReadServer(dir); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		m.Requests = append(m.Requests, measured.Request{
			Input: 50 + i*37%400, Output: 20 + i*53%90, Place: i,
			Arrival: float64(i)*0.11 + 0.05*math.Sin(float64(i)),
		})
	}
	s, err := newSimulation(m, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	p := parameters(&m.Settings)
	var out Outcome
	if err := s.Run(&p, &out, nil); err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	for i, r := range m.Requests {
		fmt.Fprintf(&lines, `{"request_id":"r%d","input_toks":%d,"output_toks":%d,"arrival_time":%v,"queued_ts":%v,"scheduled_ts":%v,"first_token_ts":%v,"last_token_ts":%v}`+"\n",
			i, r.Input, r.Output, 1.7e9+r.Arrival, 100+r.Arrival, 100+out.Scheduled[i], 100+out.First[i], 100+out.Last[i])
	}
	measuredtest.Write(t, filepath.Join(dir, "requests.jsonl"), lines.String())
	return dir
}

// TestFindsTheServer checks that a fit finds the parameters of a simulated server from another start, with the same
// result each time.
func TestFindsTheServer(t *testing.T) {
	t.Parallel()
	m, err := Read(measure(t, 80), 0)
	if err != nil {
		t.Fatal(err)
	}
	var texts [2]string
	for i := range texts {
		r, err := Run(context.Background(), m, Options{Holdout: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		texts[i] = b.String()
		if r.Simulations > 3*600 {
			t.Errorf("%d simulations for three fits, want at most 600 each", r.Simulations)
		}
		if !r.Holds() || len(r.Checks) < 6 {
			t.Errorf("%d checks, held-out means within 5 %%: %v\n%s", len(r.Checks), r.Holds(), &b)
		}
		for _, c := range r.Checks[:1] {
			for _, e := range c.Errors {
				// A wait lasts for the rest of a pass, so single waits scatter.
				if math.Abs(e.Mean) > 0.01 || e.Each > 0.01 && e.Metric != "TTFT" {
					t.Errorf("fitted to all: %+v", e)
				}
			}
		}
	}
	if texts[0] != texts[1] {
		t.Errorf("two fits differ:\n%s\n%s", texts[0], texts[1])
	}
}

// TestReplayIsTheSimulation checks that a replay of the same requests with the same model equals the fitted
// simulation.
func TestReplayIsTheSimulation(t *testing.T) {
	m, err := Read(measure(t, 60), 0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSimulation(m, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	p := timing.Profile{Version: timing.ProfileVersion, Parameters: truth()}
	p.Parameters.Graphs = m.Settings.Graphs
	path := filepath.Join(t.TempDir(), "p.json")
	if err := collector.WriteFile(path, p.Write); err != nil {
		t.Fatal(err)
	}
	var out Outcome
	if err := s.Run(&p.Parameters, &out, nil); err != nil {
		t.Fatal(err)
	}
	var trace bytes.Buffer
	id := 0
	for i := range m.Requests {
		r := &m.Requests[i]
		ids := []int{}
		for range (r.Input + 15) / 16 {
			ids = append(ids, id)
			id++
		}
		list, _ := json.Marshal(ids)
		fmt.Fprintf(&trace, `{"timestamp":%v,"input_length":%d,"output_length":%d,"hash_ids":%s}`+"\n", 1000*r.Arrival, r.Input, r.Output, list)
	}
	w, err := registry.Read(&trace, "trace", formats.Options{Format: formats.Mooncake, TraceBlock: 16})
	if err != nil {
		t.Fatal(err)
	}
	engine := engineargs.Default()
	engine.Blocks, engine.BlockTokens, engine.MaxSeqs, engine.MaxBatchedTokens = 400, 16, 16, 512
	engine.Rules, engine.PassTimes = pickRules(&m.Settings), timing.ParseSource(path)
	result, err := offline.Run(t.Context(), offline.Config{Config: harness.Config{
		Workload: w, Admission: loadgen.Admission{Mode: loadgen.Trace, Speedup: 1},
		Topology: engines.Topology{Pools: engines.OnePool(engine, 1)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range result.Collector.Requests() {
		first, last := float64(q.First)/1000, float64(q.Last)/1000
		if math.Abs(first-out.First[i]) > 1e-9 || math.Abs(last-out.Last[i]) > 1e-9 {
			t.Fatalf("request %d: tokens from %v to %v s, want %v to %v", i, first, last, out.First[i], out.Last[i])
		}
	}
}

// TestRefused checks that unsupported settings are rejected with the reason.
func TestRefused(t *testing.T) {
	dir := measure(t, 40)
	for _, c := range []struct{ from, to, want string }{
		{`"data_parallel_size":1`, `"pipeline_parallel_size":2`, "pipeline_parallel_size is 2, must be 1"},
		{`"policy":"fcfs"`, `"policy":"priority"`, `policy is "priority"`},
		{`"max_num_seqs":16`, `"max_num_seqs":null`, "max_num_seqs is missing"},
		{`"num_gpu_blocks":400`, `"num_gpu_blocks":null`, "no timeseries.csv"},
		{`"policy"`, `"speculative_config":{"method":"eagle"},"policy"`, "speculative_config is set"},
		{`"num_gpu_blocks":400`, `"num_gpu_blocks":20`, "it needs"},
		{`"block_size":16`, `"block_size":48`, "block_size is 48"},
	} {
		measuredtest.Write(t, filepath.Join(dir, "meta.json"), measuredtest.Meta(c.from, c.to))
		m, err := Read(dir, 0)
		if err == nil {
			_, err = newSimulation(m, nil, false)
		}
		if !errors.As(err, new(*measured.NotModelledError)) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.to, err, c.want)
		}
	}
	measuredtest.Write(t, filepath.Join(dir, "meta.json"), measuredtest.Meta(`"num_gpu_blocks":400`, `"num_gpu_blocks":null`))
	if m, err := Read(dir, 300); err != nil || m.Settings.Blocks != 300 {
		t.Errorf("blocks given: %v", err)
	}
}

// TestBrokenRequests checks that broken rows are reported with file and line.
func TestBrokenRequests(t *testing.T) {
	dir := measure(t, 40)
	text, err := os.ReadFile(filepath.Join(dir, "requests.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{`"input_toks":50`, `"input_toks":0`, "requests.jsonl:1: input_toks"},
		{`"first_token_ts"`, `"other"`, "requests.jsonl:1: first_token_ts is missing"},
		{`"queued_ts":100`, `"queued_ts":900`, "requests.jsonl:1: queued, first and last token"},
		{`{"request_id":"r0"`, `{"request_id":`, "requests.jsonl:1: "},
	} {
		measuredtest.Write(t, filepath.Join(dir, "requests.jsonl"), strings.Replace(string(text), c.from, c.to, 1))
		if _, err := Read(dir, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.to, err, c.want)
		}
	}
	lines := strings.SplitAfter(string(text), "\n")
	measuredtest.Write(t, filepath.Join(dir, "requests.jsonl"), strings.Join(lines[:5], ""))
	if _, err := Read(dir, 0); err == nil || !strings.Contains(err.Error(), "5 requests, must be at least 20") {
		t.Errorf("5 requests: %v", err)
	}
}

// TestPrompts checks that prompts must belong to the run.
func TestPrompts(t *testing.T) {
	m, err := Read(measure(t, 40), 0)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "prompts.jsonl")
	var good bytes.Buffer
	for range m.Requests {
		good.WriteString(`{"input_length":50,"hash_ids":[1,2,3,4]}` + "\n")
	}
	for _, c := range []struct{ text, want string }{
		{good.String(), "input_length is 50, must be "},
		{`{"input_length":50,"hash_ids":[1,2,3,4]}`, "1 prompts, expected one for each of the 40 requests"},
		{`{"input_length":500,"hash_ids":[1,2,3,4]}`, "prompts.jsonl:1: 4 hash_ids of 16 tokens for input_length 500"},
	} {
		measuredtest.Write(t, path, c.text)
		p, err := measured.ReadPrompts(path, 16)
		if err == nil {
			_, err = newSimulation(m, p, false)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestClients checks that results of load generators are read as times of a client.
func TestClients(t *testing.T) {
	var aiperf, inputs, outputs, ttfts, itls, starts []string
	for i := range 30 {
		aiperf = append(aiperf, fmt.Sprintf(`{"metadata":{"request_start_ns":%d,"benchmark_phase":"profiling"},"metrics":{"time_to_first_token":{"value":50,"unit":"ms"},"request_latency":{"value":150,"unit":"ms"},"input_sequence_length":{"value":100,"unit":"tokens"},"output_sequence_length":{"value":3,"unit":"tokens"}}}`, int64(i)*1e9))
		inputs, outputs = append(inputs, "100"), append(outputs, "3")
		ttfts, itls, starts = append(ttfts, "0.05"), append(itls, "[0.04,0.06]"), append(starts, fmt.Sprint(i))
	}
	list := func(all []string) string { return "[" + strings.Join(all, ",") + "]" }
	bench := `{"input_lens":` + list(inputs) + `,"output_lens":` + list(outputs) + `,"ttfts":` + list(ttfts) + `,"itls":` + list(itls)
	for _, c := range []struct{ file, text, want string }{
		{"profile_export.jsonl", strings.Join(aiperf, "\n"), ""},
		{"result.json", bench + `,"start_times":` + list(starts) + "}", ""},
		{"result.json", bench + "}", "0 start_times for 30 requests"},
		{"other.json", "{}", "no requests.jsonl"},
	} {
		dir := t.TempDir()
		measuredtest.Write(t, filepath.Join(dir, "meta.json"), measuredtest.Meta())
		measuredtest.Write(t, filepath.Join(dir, c.file), c.text)
		m, err := Read(dir, 0)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.file, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		r := &m.Requests[7]
		if math.Abs(r.First-r.Arrival-0.05) > 1e-9 || math.Abs(r.Last-r.Arrival-0.15) > 1e-9 || r.Arrival != 7 || r.Input != 100 || r.Output != 3 {
			t.Errorf("%s: request 7 is %+v", c.file, r)
		}
	}
}

// measuredRun returns a run of a real server. The data of real servers are optional, and TestFindsTheServer uses a
// simulated server instead.
func measuredRun(t *testing.T, name string) (*Measured, *measured.Prompts) {
	t.Helper()
	m, err := Read(optional.Data(t, "vllm-runs/"+name), 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := measured.ReadPrompts(optional.Data(t, "vllm-runs/prompts_llama-3.1-8b.jsonl"), 0)
	if err != nil {
		t.Fatal(err)
	}
	return m, p
}

// TestRealServers checks the errors of fits to real servers. On fitted requests, means are within 1 %, and p50 and
// p90 within 5 %. On either held-out half, means are within 2 %.
func TestRealServers(t *testing.T) {
	if testing.Short() || invariant.Enabled {
		t.Skip("skipped: thousands of replays; go test ./calibrate, without -short and -tags invariants, runs them")
	}
	names := []string{"RTX4090_Llama-3.1-8B", "RTXPRO6000_Llama-3.1-8B"}
	for _, name := range names[:long.Cases(1, 2)] {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, p := measuredRun(t, name)
			r, err := Run(t.Context(), m, Options{Holdout: 0.5, Prompts: p})
			if err != nil {
				t.Fatal(err)
			}
			checkReal(t, r)
		})
	}
}

func checkReal(t *testing.T, r *Result) {
	t.Helper()
	held := 0
	for _, c := range r.Checks {
		for _, e := range c.Errors {
			switch {
			case c.HeldOut:
				held++
				if math.Abs(e.Mean) > 0.02 {
					t.Errorf("%s judged on %s: %+v", c.Fitted, c.Judged, e)
				}
			case c.Fitted == "all" && c.Judged == "all":
				if math.Abs(e.Mean) > 0.01 || math.Abs(e.P50) > 0.05 || math.Abs(e.P90) > 0.05 {
					t.Errorf("%+v", e)
				}
			}
		}
	}
	if held != 6 {
		t.Errorf("%d held-out errors, want 6", held)
	}
}

// TestFindsBlocks checks that a missing number of blocks is fitted.
func TestFindsBlocks(t *testing.T) {
	if testing.Short() || invariant.Enabled {
		t.Skip("skipped: thousands of replays; go test ./calibrate, without -short and -tags invariants, runs them")
	}
	t.Parallel()
	m, p := measuredRun(t, "RTX4090_Llama-3.1-8B")
	want := m.Settings.Blocks
	m.Settings.Blocks = 0
	if err := m.CompleteSettings(optional.Data(t, "vllm-runs/RTX4090_Llama-3.1-8B")); err != nil {
		t.Fatal(err)
	}
	got, err := findBlocks(t.Context(), m, Options{Prompts: p})
	if err != nil || math.Abs(float64(got)/float64(want)-1) > 0.015 {
		t.Errorf("%d blocks, %v; want %d", got, err, want)
	}
}

// TestCoverage checks that a range contains the passes in it, and that the share of time outside is counted.
func TestCoverage(t *testing.T) {
	all := make([]pass, 0, 200)
	for i := range 200 {
		all = append(all, pass{ms: 1, tokens: float64(i), requests: 5, context: 100, perSeq: 20})
	}
	r := trustedRange(all)
	if r.Tokens.Least != 2 || r.Tokens.Most != 198 || r.Requests != (timing.Range{Least: 5, Most: 5}) {
		t.Errorf("%+v", r)
	}
}
