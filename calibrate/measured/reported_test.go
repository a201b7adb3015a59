package measured

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured/measuredtest"
)

// TestReportedSettings checks that all reported settings of a server become flags of a replay or are listed as not
// applied.
func TestReportedSettings(t *testing.T) {
	dir := t.TempDir()
	log := strings.Replace(measuredtest.ServerLog, "'enable_prefix_caching': True}", "'enable_prefix_caching': True, 'gpu_memory_utilization': 0.75, 'max_model_len': 40960, 'mm_processor_cache_gb': 4.0}", 1)
	for name, text := range map[string]string{
		"log/vllm.log": log,
		"meta/meta.json": `{"vllm_version": "0.19.0", "model": "deepseek-ai/DeepSeek-V3", "engine_kwargs": {"max_num_seqs": 64, "max_num_batched_tokens": 2048, "tensor_parallel_size": 8, "enable_expert_parallel": true,
			"async_scheduling": false, "long_prefill_token_threshold": 512, "kv_cache_dtype": "fp8_e4m3", "quantization": "awq", "compilation_config": {"cudagraph_mode": "PIECEWISE"}}}`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		dir       string
		flags     []Flag
		unapplied []string
	}{
		{"log", []Flag{{"graphs", "none"}, {"gpu-memory-utilization", "0.75"}, {"max-model-len", "40960"}}, []string{"mm_processor_cache_gb"}},
		{"meta", []Flag{{"tp", "8"}, {"ep", "8"}, {"graphs", "piecewise"}, {"kv-cache-dtype", "fp8"}, {"extra-engine-args", `{"scheduler_rules":{"two_in_flight":false,"long_prefill_tokens":512}}`}}, []string{"quantization awq"}},
	} {
		s, err := ReadServer(filepath.Join(dir, c.dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range c.flags {
			if !slices.Contains(s.Flags(), f) {
				t.Errorf("%s: %v, want %v", c.dir, s.Flags(), f)
			}
		}
		if !slices.Equal(s.unapplied, c.unapplied) {
			t.Errorf("%s: %q do not apply, want %q", c.dir, s.unapplied, c.unapplied)
		}
	}
}
