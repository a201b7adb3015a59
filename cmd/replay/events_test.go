package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate"
)

// preciseRouter is a router by prefix caches. The release of preciseRouter records its own routed prompts only with a
// feature gate.
const preciseRouter = `apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: precise-prefix-cache-scorer
  parameters: {speculativeIndexing: true}
- type: kv-cache-utilization-scorer
- type: queue-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: precise-prefix-cache-scorer, weight: 3}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: queue-scorer, weight: 2}
`

// groupRow is a row of a replayed request.
type groupRow struct {
	Worker int
	Input  int     `json:"input_tokens"`
	Output int     `json:"output_tokens"`
	Reused int     `json:"reused_tokens"`
	At     float64 `json:"arrival_ms"`
	First  float64 `json:"first_token_ms"`
	Last   float64 `json:"last_token_ms"`
}

// makeGroupRun lets four simulated servers behind preciseRouter serve prompts for 100 s. Most prompts share a prefix,
// which changes after half of the time. makeGroupRun writes the measurements of a client and, with logs, the logs of
// the servers.
func makeGroupRun(t *testing.T, name string, logs bool, flags ...string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 17))
	trace, groups, next := &strings.Builder{}, []string{}, 10
	for at := 0.0; at < 100; at += rng.ExpFloat64() / 30 {
		group, first := "", next
		if rng.Float64() < 0.85 {
			group, first = "A", 1
			if at > 50 {
				group, first = "B", 2
			}
		}
		groups = append(groups, group)
		fmt.Fprintf(trace, `{"timestamp":%v,"input_length":%d,"output_length":%d,"hash_ids":[%d,%d]}`+"\n", 1000*at, 513+rng.IntN(500), 30+rng.IntN(300), first, next+1)
		next += 2
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(name, 0o755); err != nil {
		t.Fatal(err)
	}
	write("groups.jsonl", trace.String())
	write(filepath.Join(name, "router.yaml"), preciseRouter)
	rows := filepath.Join(name, "rows.jsonl")
	args := append([]string{"trace", "groups.jsonl", "--trace-block-size", "512", "--gpu", "h100", "--model", "qwen3-14b", "--graphs", "none", "--scheduler-profile", "vllm-0.19", "--max-num-seqs", "256",
		"--max-num-batched-tokens", "2048", "--num-gpu-blocks", "3097", "--block-size", "64", "--workers", "4", "--endpoint-picker", filepath.Join(name, "router.yaml"), "--requests", rows}, flags...)
	var out, errs bytes.Buffer
	if code := run(args, nil, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	text, err := os.ReadFile(rows)
	if err != nil {
		t.Fatal(err)
	}
	var all []groupRow
	table := &strings.Builder{}
	table.WriteString("request_id,prefix_group,prefix_length,input_tokens,output_tokens,server_input_tokens,send_time_us,first_chunk_time_us,last_chunk_time_us,status\n")
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		var r groupRow
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		prefix, us := 0, func(ms float64) int64 { return 1_700_000_000_000_000 + int64(1000*ms) }
		if groups[i] != "" {
			prefix = 512
		}
		fmt.Fprintf(table, "%d,%s,%d,%d,%d,%d,%d,%d,%d,ok\n", i, groups[i], prefix, r.Input-prefix, r.Output, r.Input, us(r.At), us(r.First), us(r.Last))
		all = append(all, r)
	}
	write(filepath.Join(name, "trace_data.csv"), table.String())
	for pod := range 4 {
		text := podLog
		if logs {
			text += logOf(all, pod)
		}
		write(filepath.Join(name, fmt.Sprintf("vllm-pod%d.log", pod+1)), text)
	}
}

// logOf returns the log lines that a server writes every 10 s.
func logOf(all []groupRow, pod int) string {
	text := &strings.Builder{}
	for end := 10_000.0; end <= 110_000; end += 10_000 {
		running, tokens, cached, prompts := 0, 0.0, 0, 0
		for i := range all {
			r := &all[i]
			if r.Worker != pod {
				continue
			}
			if r.First < end {
				cached, prompts = cached+r.Reused, prompts+r.Input
			}
			if r.First < end && r.Last > end {
				running++
			}
			tokens += max(0, min(r.Last, end)-max(r.First, end-10_000)) / (r.Last - r.First) * float64(r.Output)
		}
		fmt.Fprintf(text, "INFO Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, Waiting: 0 reqs, GPU KV cache usage: 9.1%%, Prefix cache hit rate: %.1f%%\n",
			tokens/10, running, 100*float64(cached)/float64(max(prompts, 1)))
	}
	return text.String()
}

// The logs of the servers, or the times of the requests, show whether KV events reached the router of a run. A replay
// with KV events of a run without events gives a warning.
func TestEventsOfRuns(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	for _, c := range []struct {
		name          string
		logs, unheard bool
		flags         []string
		warned        bool
	}{
		{"logged-unheard", true, true, nil, false},
		{"logged-heard", true, false, nil, false},
		{"unlogged-unheard", false, true, nil, false},
		{"unlogged-heard", false, false, nil, false},
		{"believed", true, true, []string{"--signal-delay", "index=0"}, true},
	} {
		var made []string
		if c.unheard {
			made = []string{"--signal-delay", "index=never"}
		}
		makeGroupRun(t, c.name, c.logs, made...)
		var out, errs bytes.Buffer
		args := append([]string{"validate", c.name, "--gpu", "h100", "--model", "qwen3-14b", "--graphs", "none", "--num-gpu-blocks", "3097", "--output", "json"}, c.flags...)
		if code := run(args, nil, &out, &errs); code != 0 {
			t.Fatalf("%s: exit %d: %s", c.name, code, &errs)
		}
		var got struct {
			Notes    []string           `json:"notes"`
			Checks   []calibrate.Judged `json:"checks"`
			Sides    []calibrate.Side   `json:"side_by_side"`
			Warnings []string           `json:"warnings"`
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		noted := strings.Contains(strings.Join(got.Notes, "\n"), "KV events do not reach the router")
		warned := strings.Contains(errs.String(), "the replay routes requests differently")
		if noted != (c.unheard && !c.warned) || warned != c.warned || (len(got.Warnings) > 0) != c.warned {
			t.Errorf("%s: noted %v, warned %v: %q, %s", c.name, noted, warned, got.Notes, &errs)
		}
		t.Logf("%s: mean TPOT %+.1f %% off", c.name, 100*got.Checks[0].Errors[1].Mean)
		if c.warned {
			continue
		}
		for _, e := range got.Checks[0].Errors[1:] {
			if math.Abs(e.Mean) > 0.01 {
				t.Errorf("%s: mean %s %+.1f %% off, want within 1 %%", c.name, e.Metric, 100*e.Mean)
			}
		}
		for _, s := range got.Sides {
			if s.IsShare() && math.Abs(float64(s.Off())) > 0.02 {
				t.Errorf("%s: %s: %.3f and %.3f, want within 2 points", c.name, s.Name, s.Measured, s.Simulated)
			}
		}
	}
}

// The warning names a server that publishes no KV events to the router.
func TestUnreadEvents(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	makeGroupRun(t, "unread", true, "--signal-delay", "index=never")
	path := filepath.Join("unread", "vllm-pod2.log")
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{"enable_kv_cache_events=True", "enable_kv_cache_events=False", "publishes no KV events"},
		{"topic='kv@", "topic='events@", "topicFilter"},
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		if code := run([]string{"validate", "unread", "--gpu", "h100", "--model", "qwen3-14b", "--graphs", "none", "--num-gpu-blocks", "3097"}, nil, &out, &errs); code != 0 {
			t.Fatalf("exit %d: %s", code, &errs)
		}
		if got := errs.String(); c.want == "" && strings.Contains(got, "kv_events_config") || c.want != "" && !(strings.Contains(got, "vllm-pod2.log: ") && strings.Contains(got, c.want)) {
			t.Errorf("%s: %s, want %q", c.new, got, c.want)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
