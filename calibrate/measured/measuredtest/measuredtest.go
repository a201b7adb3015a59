// Package measuredtest writes measured runs for tests.
package measuredtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Meta returns the settings of a small server of vLLM, with parts of the text replaced.
func Meta(replace ...string) string {
	text := `{"model":"nobody/Nothing-9B","vllm_version":"0.19.0",
 "engine_kwargs":{"max_num_seqs":16,"max_num_batched_tokens":512,"data_parallel_size":1},
 "kv_cache":{"num_gpu_blocks":400,"block_size":16},
 "resolved_config":{"scheduler_config":{"async_scheduling":true,"policy":"fcfs"}}}`
	return strings.NewReplacer(replace...).Replace(text)
}

// Write writes a file.
func Write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// WriteRecorded writes a run as replay drive does. The run has 24 requests, and two of them did not complete.
func WriteRecorded(t testing.TB, dir, change, to string) {
	t.Helper()
	var rows, trace strings.Builder
	for i := range 24 {
		at, status, output := 5+0.1*float64(i), "ok", 3
		switch i {
		case 3:
			status, output = "error", 0
		case 7:
			status = "cancelled"
		}
		fmt.Fprintf(&rows, `{"request_id":"%d","status":"%s","server":"s%d","input_toks":%d,"output_toks":%d,"cached_toks":16,"arrival_time":%g,"first_token_ts":%g,"last_token_ts":%g,"gaps_s":[0.01,0.02]}`+"\n",
			i, status, i%2, 40+i, output, at, at+0.05, at+0.08)
		fmt.Fprintf(&trace, `{"timestamp":%g,"input_length":%d,"output_length":3,"hash_ids":[1,%d]}`+"\n", 1000*at, 40+i, 10+i)
	}
	files := map[string]string{
		"measured.jsonl": rows.String(), "trace.jsonl": trace.String(),
		"meta.json": `{"trace_block_size":32,"num_gpu_blocks":400,"block_size":16,"max_num_seqs":8,"max_num_batched_tokens":2048,"enable_prefix_caching":true}`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Replace(text, change, to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// WriteTraceRun writes a TraceV2 directory with 40 requests. The argument rows has further requests.
func WriteTraceRun(t testing.TB, files map[string]string, rows ...string) string {
	t.Helper()
	dir := t.TempDir()
	table := &strings.Builder{}
	table.WriteString(TraceHead)
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

// TraceHead is the header line of a small TraceV2 table.
const TraceHead = "request_id,slo_class,prefix_group,prefix_length,input_tokens,output_tokens,server_input_tokens,arrival_time_us,send_time_us,first_chunk_time_us,last_chunk_time_us,status\n"

// ServerLog is the log of a small server of vLLM.
const ServerLog = `INFO [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-14B', 'enforce_eager': True, 'block_size': 16, 'max_num_batched_tokens': 2048, 'max_num_seqs': 64, 'enable_prefix_caching': True}
INFO [vllm.py:840] Asynchronous scheduling is enabled.
INFO [core.py:109] Initializing a V1 LLM engine (v0.20.2) with config: model='Qwen/Qwen3-14B', tensor_parallel_size=1, enforce_eager=True, enable_prefix_caching=True
INFO [kv_cache_utils.py:1708] GPU KV cache size: 16,000 tokens
`
