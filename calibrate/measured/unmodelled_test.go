package measured

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured/measuredtest"
)

// TestUnmodelled checks that every setting that changes the server's behaviour is refused or noted. Settings without
// an effect must be neither refused nor noted.
func TestUnmodelled(t *testing.T) {
	for _, c := range []struct{ set, refused, noted string }{
		{`"speculative_config":{"method":"eagle"}`, "speculative_config is set, must be none", ""},
		{`"kv_transfer_config":"NixlConnector"`, `kv_transfer_config is "NixlConnector", must be none`, ""},
		{`"kv_offloading_size":8`, "kv_offloading_size is 8, must be none", ""},
		{`"kv_offloading_size":0`, "", ""},
		{`"kv_offloading_backend":"native"`, "", ""},
		{`"sliding_window":128`, "sliding_window is 128, must be none", ""},
		{`"sliding_window":128,"disable_sliding_window":true`, "", ""},
		{`"decode_context_parallel_size":2`, "decode_context_parallel_size is 2, must be 1", ""},
		{`"scheduler_cls":"my.own.Scheduler2"`, `scheduler_cls is "my.own.Scheduler2", must be vLLM's own`, ""},
		{`"scheduler_cls":"vllm.v1.core.sched.scheduler.Scheduler"`, "", ""},
		{`"scheduler_cls":null`, "", ""},
		{`"scheduling_policy":"priority"`, `scheduling_policy is "priority", must be fcfs`, ""},
		{`"num_scheduler_steps":8`, "num_scheduler_steps is 8, must be 1", ""},
		{`"enable_dbo":true`, "enable_dbo is true, must be off: passes are not cut", ""},
		{`"ubatch_size":2`, "ubatch_size is 2, must be off: passes", ""},
		{`"runner_type":"pooling"`, `runner_type is "pooling", must be generate`, ""},
		{`"runner":"auto"`, "", ""},
		{`"is_encoder_decoder":true`, "is_encoder_decoder is true, must be a decoder", ""},
		{`"mamba_cache_mode":"align"`, `mamba_cache_mode is "align", must be none`, ""},
		{`"mamba_cache_mode":"none"`, "", ""},
		{`"enable_lora":true`, "", "enable_lora is true: which adapter"},
		{`"multimodal_config":{}`, "", "multimodal_config is set: input_toks"},
		{`"data_parallel_external_lb":true`, "", "data_parallel_external_lb is true: an external load balancer"},
		{`"stream_interval":1`, "", ""},
		{`"stream_interval":10`, "", "stream_interval is 10: answers come in pieces"},
		{`"prefix_caching_hash_algo":"sha256","kv_cache_dtype":"fp8","seed":3`, "", ""},
		{`"model":"openai/gpt-oss-120b"`, "", "18 layers of gpt-oss-120b attend to windows of 128 tokens"},
	} {
		s := settingsOf(t, `"policy":"fcfs"`, `"policy":"fcfs",`+c.set)
		if got := strings.Join(s.refusals, "; "); !strings.Contains(got, c.refused) || (c.refused == "") != (got == "") {
			t.Errorf("%s: refused for %q, want %q", c.set, got, c.refused)
		}
		if got := strings.Join(s.Notes, "; "); !strings.Contains(got, c.noted) || (c.noted == "") != (got == "") {
			t.Errorf("%s: noted %q, want %q", c.set, got, c.noted)
		}
	}
	if s := settingsOf(t, `"policy"`, `"max_num_partial_prefills":2,"max_model_len":1000,"policy"`); s.LongPrefillTokens != 40 {
		t.Errorf("with two partial prompts at once long ones get %d tokens a pass, want 40", s.LongPrefillTokens)
	}
	narrow, wide := settingsOf(t, `"policy"`, `"cache_dtype":"fp8","policy"`), settingsOf(t)
	if a, b := StartParameters(&narrow), StartParameters(&wide); !near(2*a.Context, b.Context) {
		t.Errorf("reading a token of 8 bits takes %v s, one of 16 %v", a.Context, b.Context)
	}
}

// TestUnmodelledLog checks that settings in a log are refused in the same way as in meta.json.
func TestUnmodelledLog(t *testing.T) {
	for arguments, want := range map[string]string{
		`'speculative_config': {'method': 'eagle3', 'model': 'draft', 'num_speculative_tokens': 3}`:       "speculative_config is set, must be none",
		`'kv_transfer_config': KVTransferConfig(kv_connector='NixlConnector', kv_buffer_size=1000000000)`: "kv_transfer_config is set, must be none",
		`'scheduling_policy': 'priority', 'enable_lora': True`:                                            `scheduling_policy is "priority", must be fcfs`,
		`'kv_offloading_size': 20.0, 'async_scheduling': False`:                                           "kv_offloading_size is 20, must be none",
		`'quantization': 'fp8', 'max_num_seqs': 64`:                                                       "",
	} {
		path := filepath.Join(t.TempDir(), "vllm.log")
		measuredtest.Write(t, path, "INFO non-default args: {'model': 'm', 'max_num_batched_tokens': 2048, "+arguments+"}\n"+
			"INFO Initializing a V1 LLM engine (v0.20.2) with config: model='m', speculative_config=None, tensor_parallel_size=1\n")
		tree, err := readLog(path)
		if err != nil {
			t.Fatal(err)
		}
		s := newSettings(tree)
		if got := strings.Join(s.refusals, "; "); !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: refused for %q, want %q", arguments, got, want)
		}
		if strings.Contains(arguments, "quantization") && (!s.Quantized || s.MaxSeqs != 64 || s.MaxBatchedTokens != 2048) {
			t.Errorf("%s: %+v", arguments, s)
		}
	}
}
