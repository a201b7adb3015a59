package calibrate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// traceHead is the line of columns of a small TraceV2 table.
const traceHead = "request_id,slo_class,prefix_group,prefix_length,input_tokens,output_tokens,server_input_tokens,arrival_time_us,send_time_us,first_chunk_time_us,last_chunk_time_us,status\n"

// writeTraceRun writes a TraceV2 directory of 40 requests, of which rows has more.
func writeTraceRun(t *testing.T, files map[string]string, rows ...string) string {
	t.Helper()
	dir := t.TempDir()
	table := &strings.Builder{}
	table.WriteString(traceHead)
	for i := range 40 {
		group, prefix, at := "", 0, 1_700_000_000_000_000+100_000*i
		if i%2 == 0 {
			group, prefix = "system", 64
		}
		fmt.Fprintf(table, "%d,critical,%s,%d,100,20,%d,%d,%d,%d,%d,ok\n", 10+i, group, prefix, 100+prefix, 1_000_000+100_000*i, at, at+50_000, at+250_000)
	}
	files["trace_data.csv"] = table.String() + strings.Join(rows, "")
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const serverLog = `INFO [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-14B', 'enforce_eager': True, 'block_size': 16, 'max_num_batched_tokens': 2048, 'max_num_seqs': 64, 'enable_prefix_caching': True}
INFO [vllm.py:840] Asynchronous scheduling is enabled.
INFO [core.py:109] Initializing a V1 LLM engine (v0.20.2) with config: model='Qwen/Qwen3-14B', tensor_parallel_size=1, enforce_eager=True, enable_prefix_caching=True
INFO [kv_cache_utils.py:1708] GPU KV cache size: 16,000 tokens
`

func TestTraceV2(t *testing.T) {
	dir := writeTraceRun(t, map[string]string{"vllm.log": serverLog, "trace_header.yaml": "trace_version: 2\nwarm_up_requests: 10\n"},
		"90,critical,,0,100,0,0,9000000,1700000009000000,,,error\n")
	m, err := Read(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &m.Settings
	if len(m.Requests) != 50 || m.Lead != 10 || m.Failed != 1 {
		t.Errorf("%d requests, %d before the first, %d failed, want 50, 10 and 1", len(m.Requests), m.Lead, m.Failed)
	}
	if s.Blocks != 1000 || s.MaxSeqs != 64 || s.Version != "0.20.2" || !s.Async || len(s.open) > 0 || s.Graphs != nil {
		t.Errorf("settings are %+v", s)
	}
	if r := &m.Requests[10]; r.ID != "10" || r.Class != "critical" || !(r.Arrival > 0.99 && r.Arrival < 1.01) || !(r.First-r.Arrival > 0.0499 && r.First-r.Arrival < 0.0501) {
		t.Errorf("the first that was measured is %+v, want number 10 at 1 s", r)
	}
	if m.Requests[0].Arrival != 0 || m.Requests[0].lead == false {
		t.Errorf("the first of all is %+v, want one before the table, at 0", m.Requests[0])
	}
	p := m.Prompts
	if p == nil || p.check(m.Requests) != nil {
		t.Fatalf("prompts are %+v", p)
	}
	if a, b := p.ids[0], p.ids[2]; a[3] != b[3] || a[4] == b[4] || p.ids[1][0] == a[0] {
		t.Errorf("prompts of one group are %v and %v, want 64 tokens in common", a[:6], b[:6])
	}
	if parts, _ := splitParts(m, 0); len(parts[0].chosen) != 40 || parts[0].chosen[0] != 10 {
		t.Errorf("%d requests are judged from %d on, want 40 from 10 on", len(parts[0].chosen), parts[0].chosen[0])
	}
}

// A client's count of the tokens of a prefix is put right by what the server counts.
func TestPrefixAsServed(t *testing.T) {
	table := &traceTable{requests: make([]Request, 2), shapes: []prefixShape{{"a", 64, -5}, {excess: 1}}}
	table.requests[0].Input, table.requests[1].Input = 100, 100
	table.requests, table.shapes = append(table.requests, table.requests[0]), append(table.shapes, table.shapes[0])
	p := table.prompts("")
	if p.ids[0][2] != p.ids[2][2] || p.ids[0][3] == p.ids[2][3] {
		t.Errorf("%v and %v, want 58 tokens in common: 3 blocks", p.ids[0], p.ids[2])
	}
}

// Each group of prefixes has its own length, by what the server counts of its prompts.
func TestPrefixesOfGroups(t *testing.T) {
	table := &traceTable{}
	for _, s := range []prefixShape{{excess: 1}, {"a", 64, -5}, {"b", 64, 19}, {"a", 64, -3}, {"b", 64, 21}} {
		table.requests, table.shapes = append(table.requests, Request{Input: 200}), append(table.shapes, s)
	}
	p := table.prompts("")
	alike := func(i, k int) (blocks int) {
		for blocks < len(p.ids[i]) && p.ids[i][blocks] == p.ids[k][blocks] {
			blocks++
		}
		return blocks
	}
	if a, b := alike(1, 3), alike(2, 4); a != 3 || b != 5 || alike(1, 2) != 0 {
		t.Errorf("%d and %d blocks in common, want 3 and 5: 59 and 83 tokens", a, b)
	}
}

func TestBadTraceV2(t *testing.T) {
	for _, c := range []struct{ row, want string }{
		{"91,,,0,100,20,100,0,1700000000000000,5,6,ok\n", ":42: sent, first and last chunk"},
		{"91,,,0,100,x,100,0,1700000000000000,5,6,ok\n", `:42: output_tokens is "x", want a whole number`},
		{"91,,\n", ":42:"},
	} {
		dir := writeTraceRun(t, map[string]string{"vllm.log": serverLog}, c.row)
		if _, err := Read(dir, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.row, err, c.want)
		}
	}
	dir := writeTraceRun(t, map[string]string{"trace_header.yaml": "warm_up_requests: many\n"})
	if _, err := ReadTimes(dir); err == nil || !strings.Contains(err.Error(), `warm_up_requests is "many"`) {
		t.Errorf("%v, want what is wrong with the header", err)
	}
}

// Numbers name requests as well as texts do.
func TestNumberedRequests(t *testing.T) {
	r, err := readRequest([]byte(`{"request_id": 17, "input_toks": 3, "output_toks": 2, "queued_ts": 1, "first_token_ts": 2, "last_token_ts": 3}`))
	if err != nil || r.ID != "17" {
		t.Errorf("request %q, %v, want 17", r.ID, err)
	}
}
