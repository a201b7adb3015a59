package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler/timing"
)

// podLog is the start-up log of each server of a generated run.
const podLog = `INFO [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-14B', 'enforce_eager': True, 'block_size': 64, 'max_num_batched_tokens': 2048, 'max_num_seqs': 256, 'enable_prefix_caching': True, 'kv_events_config': KVEventsConfig(enable_kv_cache_events=True, publisher='zmq', endpoint='tcp://router:5557', topic='kv@10.0.0.1:8000@Qwen/Qwen3-14B')}
INFO [vllm.py:840] Asynchronous scheduling is enabled.
INFO [core.py:109] Initializing a V1 LLM engine (v0.19.0) with config: model='Qwen/Qwen3-14B', tensor_parallel_size=1, enforce_eager=True, enable_prefix_caching=True
INFO [kv_cache_utils.py:1708] GPU KV cache size: 198,208 tokens
`

// makeRun lets simulated servers behind a router serve requests at a rate for 24 s, with the settings of flags.
// makeRun writes the measurements of a client at a distance of 15 ms.
func makeRun(t *testing.T, name string, rate float64, flags ...string) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(rate), 17))
	trace := &strings.Builder{}
	type line struct{ at, in, out float64 }
	var lines []line
	for at := 0.0; at < 24; at += rng.ExpFloat64() / rate {
		x := line{at, float64(100 + rng.IntN(900)), float64(30 + rng.IntN(300))}
		lines = append(lines, x)
		ids := fmt.Sprint(2 * len(lines))
		if x.in > 512 {
			ids += fmt.Sprintf(",%d", 2*len(lines)+1)
		}
		fmt.Fprintf(trace, `{"timestamp":%v,"input_length":%v,"output_length":%v,"hash_ids":[%s]}`+"\n", 1000*x.at, x.in, x.out, ids)
	}
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("trace.jsonl", trace.String())
	args := append([]string{"trace", "trace.jsonl", "--trace-block-size", "512", "--scheduler-profile", "vllm-0.19", "--max-num-seqs", "256",
		"--max-num-batched-tokens", "2048", "--num-gpu-blocks", "3097", "--block-size", "64", "--workers", "4", "--endpoint-picker", "picker/precise.yaml", "--requests", name + ".jsonl"}, flags...)
	if !slices.Contains(flags, "--timing-profile") {
		args = append(args, "--gpu", "h100", "--model", "qwen3-14b", "--graphs", "none")
	}
	var out, errs bytes.Buffer
	if code := run(args, nil, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	text, err := os.ReadFile(name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	table := &strings.Builder{}
	table.WriteString("request_id,prefix_group,prefix_length,input_tokens,output_tokens,server_input_tokens,arrival_time_us,send_time_us,first_chunk_time_us,last_chunk_time_us,status\n")
	for i, row := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		var r struct {
			First float64 `json:"first_token_ms"`
			Last  float64 `json:"last_token_ms"`
		}
		if err := json.Unmarshal([]byte(row), &r); err != nil {
			t.Fatal(err)
		}
		x, us := lines[i], func(ms float64) int64 { return 1_700_000_000_000_000 + int64(1000*ms) }
		fmt.Fprintf(table, "%d,,0,%v,%v,%v,%d,%d,%d,%d,ok\n", i, x.in, x.out, x.in, us(1000*x.at), us(1000*x.at), us(r.First+15), us(r.Last+15))
	}
	write(filepath.Join(name, "trace_data.csv"), table.String())
	for pod := range 4 {
		write(filepath.Join(name, fmt.Sprintf("vllm-pod%d.log", pod+1)), podLog)
	}
	return name
}

// A fit finds the warm-up of fresh servers: its time, and the pass in which it occurs. A replay of the servers has
// the same warm-up.
func TestFreshServers(t *testing.T) {
	long.Only(t)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	router, err := os.ReadFile("picker/precise.yaml")
	if err == nil {
		err = os.WriteFile("router.yaml", router, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"calibrate"}
	for i, rate := range []float64{24, 40} {
		args = append(args, makeRun(t, fmt.Sprint("fresh-", i), rate, "--timing-profile", "roofline:h100/qwen3-14b?graphs=none", "--extra-engine-args", `{"warmup":{"time":4,"requests":8}}`))
	}
	var out, errs bytes.Buffer
	if code := run(append(args, "--gpu", "h100", "--profile", "p.json"), nil, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	p, err := timing.LoadProfile("p.json")
	if err != nil || p.Warmup == nil || p.Warmup.Requests != 8 || math.Abs(p.Warmup.Time-4) > 0.3 {
		t.Fatalf("the warm-up is %+v, %v; want 4 s at 8 requests\n%s", p.Warmup, err, &out)
	}
	out.Reset()
	if code := run([]string{"validate", "fresh-1", "--timing-profile", "p.json", "--output", "json"}, nil, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	var got struct {
		Checks []calibrate.Judged `json:"checks"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if ttft := got.Checks[0].Errors[0]; ttft.Measured < 0.3 || math.Abs(ttft.Mean) > 0.25 {
		t.Errorf("mean TTFT of all is %+.1f %% off %v s, want what the warm-up makes of it", 100*ttft.Mean, ttft.Measured)
	}
}
