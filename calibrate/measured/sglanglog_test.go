package measured

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const sglangStart = "[2026-05-01 10:00:00] server_args=ServerArgs(model_path='/models/Qwen3-14B', tp_size=2, page_size=64, schedule_policy='fcfs', disable_radix_cache=False, speculative_algorithm='EAGLE')\n" +
	"[2026-05-01 10:00:40 TP0] max_total_num_tokens=198208, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=256, context_len=40960, available_gpu_mem=9.21 GB\n"

// writeSGLangLogs writes the logs of servers with times[i] ms per token and a quarter of their prompts cached.
func writeSGLangLogs(t *testing.T, dir string, times ...float64) {
	t.Helper()
	for i, ms := range times {
		text := &strings.Builder{}
		text.WriteString(sglangStart)
		for k := range 10 {
			running := 30 + k%3
			fmt.Fprintf(text, "[2026-05-01 10:%02d:00 TP0] Prefill batch. #new-seq: 4, #new-token: 3000, #cached-token: 1000, token usage: 0.20, #running-req: %d, #queue-req: 0, cuda graph: False, input throughput (token/s): 4000.00\n", k, running)
			fmt.Fprintf(text, "[2026-05-01 10:%02d:00 TP0] Decode batch. #running-req: %d, #token: 12345, token usage: 0.20, cuda graph: True, gen throughput (token/s): %.2f, #queue-req: 0, \n", k, running, 1000*float64(running)/ms)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("sglang-%d.log", i+1)), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSGLangLogs checks the settings, the cached tokens, and the slow servers in the logs of SGLang.
func TestSGLangLogs(t *testing.T) {
	dir := t.TempDir()
	writeSGLangLogs(t, dir, 15, 15.2, 18, 14.9)
	s, err := ReadServer(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Flag{{"engine", "sglang"}, {"num-gpu-blocks", "3097"}, {"block-size", "64"}, {"chunked-prefill-size", "8192"}, {"max-running-requests", "256"}, {"workers", "4"}, {"schedule-policy", "fcfs"}} {
		if !slices.Contains(s.Flags(), want) {
			t.Errorf("%v, want %v", s.Flags(), want)
		}
	}
	if s.Kind != "sglang" || s.Blocks != 3097 || s.TensorParallel != 2 || !slices.Equal(s.refusals, []string{"speculative_algorithm is EAGLE, must be none"}) {
		t.Errorf("%+v", s)
	}
	pods, err := ReadPods(dir)
	if err != nil || len(pods) != 4 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	m := &Run{Pods: pods, Requests: []Request{{Input: 500, Output: 200}}}
	if m.noteSlow(); len(m.Settings.Notes) != 1 || !strings.Contains(m.Settings.Notes[0], "sglang-3.log is slow: 18.0 ms") {
		t.Errorf("%q, want the third", m.Settings.Notes)
	}
	if pods[0].Hit != 0.25 {
		t.Errorf("found %v, want a quarter", pods[0].Hit)
	}
}
