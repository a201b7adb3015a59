package deployment

import (
	"slices"
	"strings"
	"testing"
)

const log = `(APIServer pid=1) INFO 04-24 [utils.py:238] non-default args: {'model_tag': '/models/Qwen/Qwen3-14B', 'port': 8200, 'max_model_len': 40960, 'served_model_name': ['Qwen/Qwen3-14B'], 'block_size': 64, 'gpu_memory_utilization': 0.75, 'max_num_seqs': 256, 'kv_events_config': KVEventsConfig(enable_kv_cache_events=True, publisher='zmq')}
(APIServer pid=1) INFO 04-24 [scheduler.py:231] Chunked prefill is enabled with max_num_batched_tokens=2048.
(EngineCore_DP0 pid=439) INFO 04-24 [core.py:101] Initializing a V1 LLM engine (v0.17.1) with config: model='/models/Qwen/Qwen3-14B', speculative_config=None, dtype=torch.bfloat16, max_seq_len=40960, tensor_parallel_size=2, pipeline_parallel_size=1, quantization=None, enforce_eager=True, kv_cache_dtype=auto, enable_prefix_caching=True, enable_chunked_prefill=True
(EngineCore_DP0 pid=439) INFO 04-24 [kv_cache_utils.py:1314] GPU KV cache size: 198,208 tokens
`

func TestReadLog(t *testing.T) {
	l, err := ReadLog(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"model": "/models/Qwen/Qwen3-14B", "tp": "2", "pp": "1", "max-model-len": "40960", "block-size": "64", "gpu-memory-utilization": "0.75", "max-num-seqs": "256",
		"max-num-batched-tokens": "2048", "kv-cache-dtype": "auto", "enable-prefix-caching": "true", "enable-chunked-prefill": "true", "graphs": "none", "engine": "vllm", "num-gpu-blocks": "3097",
	}
	for flag, value := range want {
		if l.Known[flag] != value {
			t.Errorf("%s is %q, want %q", flag, l.Known[flag], value)
		}
	}
	if l.Release != "0.17.1" || l.KVTokens != 198208 || len(l.Known) != len(want) {
		t.Errorf("%+v", l)
	}
	if _, err := ReadLog(strings.NewReader("hello\n")); err == nil || !strings.Contains(err.Error(), "Initializing a V1 LLM engine") {
		t.Errorf("a log of something else: %v", err)
	}
}

// TestLengthOfEngine checks that the length that the engine uses takes precedence over the requested one.
func TestLengthOfEngine(t *testing.T) {
	other := strings.Replace(log, "'max_model_len': 40960", "'max_model_len': -1", 1)
	for range 50 {
		l, err := ReadLog(strings.NewReader(other))
		if err != nil {
			t.Fatal(err)
		}
		if l.Known["max-model-len"] != "40960" {
			t.Fatalf("max-model-len is %s, want 40960", l.Known["max-model-len"])
		}
	}
}

func TestWrite(t *testing.T) {
	var out strings.Builder
	if err := Write(&out, "A deployment", Fill(Settings(), map[string]string{"gpu": "h100", "tp": "2"}, map[string]string{"max-num-seqs": "7"})); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# A deployment\n", "\ngpu: h100  ", "\ntp: 2  ", "\n# max-num-seqs: 7  ", "# maximum number of requests that run on a worker at once;"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestFileHasSettingsOfTRTLLM checks that a deployment file has every setting that is read from a TensorRT-LLM
// server.
func TestFileHasSettingsOfTRTLLM(t *testing.T) {
	for flag, name := range NamesOfTRTLLM() {
		if !slices.Contains(Flags(), flag) {
			t.Errorf("%s is read as %s, which no deployment file has", name, flag)
		}
	}
}
