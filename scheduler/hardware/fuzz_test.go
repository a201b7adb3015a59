package hardware

import (
	"math"
	"testing"
)

// FuzzConfig parses any text as a configuration. The text is rejected, or gives a shape with finite memory and times.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"model_type":"qwen3","hidden_size":5120,"num_hidden_layers":40,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,"intermediate_size":17408,"vocab_size":151936}`))
	f.Add([]byte(`{"model_type":"mixtral","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"intermediate_size":14336,"num_local_experts":8,"num_experts_per_tok":2,"vocab_size":32000,"sliding_window":4096,"first_k_dense_replace":-3}`))
	f.Add([]byte(`{"model_type":"deepseek_v3","hidden_size":7168,"num_hidden_layers":61,"num_attention_heads":128,"intermediate_size":18432,"moe_intermediate_size":2048,"n_routed_experts":256,"n_shared_experts":1,"num_experts_per_tok":8,"kv_lora_rank":512,"vocab_size":129280,"quantization_config":{"quant_method":"fp8"}}`))
	f.Add([]byte(`{"model_type":"gemma3","text_config":{"hidden_size":1,"num_hidden_layers":1,"num_attention_heads":1,"intermediate_size":1,"max_position_embeddings":1,"sliding_window":-1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseConfig(text)
		if err != nil {
			return
		}
		fit := Fit{GPU: GPUs()[0], Model: m, TP: 1, PP: 1, DP: 1, Utilization: 0.9, BlockTokens: 16, MaxSeqs: 256, MaxBatch: 2048}
		b, p := fit.Budget(), fit.Pass()
		for _, v := range []float64{b.Weights, b.Activations, b.PerToken, p.Weights, p.Experts, p.Token, p.Pair, p.Context, p.Share} {
			if !(v >= 0) || math.IsInf(v, 0) {
				t.Fatalf("%s: %+v, %+v", text, b, p)
			}
		}
		if b.PerToken == 0 || b.Tokens < 0 {
			t.Fatalf("%s: %+v", text, b)
		}
		_, _ = fit.Check()
	})
}
