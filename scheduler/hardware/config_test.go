package hardware

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfigs parses published configurations, reduced to the keys in use, and compares them with the built-in
// models.
func TestConfigs(t *testing.T) {
	for name, text := range map[string]string{
		"qwen3-14b": `{"model_type":"qwen3","hidden_size":5120,"num_hidden_layers":40,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,
			"intermediate_size":17408,"vocab_size":151936,"tie_word_embeddings":false,"max_position_embeddings":40960,"sliding_window":null,"use_sliding_window":false,"max_window_layers":40}`,
		"qwen2.5-0.5b": `{"model_type":"qwen2","hidden_size":896,"num_hidden_layers":24,"num_attention_heads":14,"num_key_value_heads":2,
			"intermediate_size":4864,"vocab_size":151936,"tie_word_embeddings":true,"max_position_embeddings":32768,"sliding_window":32768,"use_sliding_window":false}`,
		"qwen3-30b-a3b": `{"model_type":"qwen3_moe","hidden_size":2048,"num_hidden_layers":48,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,
			"intermediate_size":6144,"moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,"decoder_sparse_step":1,"mlp_only_layers":[],"vocab_size":151936,"max_position_embeddings":40960,"tie_word_embeddings":false}`,
		"mixtral-8x7b": `{"model_type":"mixtral","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,
			"intermediate_size":14336,"num_local_experts":8,"num_experts_per_tok":2,"vocab_size":32000,"max_position_embeddings":32768,"sliding_window":null,"tie_word_embeddings":false}`,
		"gemma-3-27b": `{"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":5376,"num_hidden_layers":62,"num_attention_heads":32,"num_key_value_heads":16,"head_dim":128,
			"intermediate_size":21504,"sliding_window":1024,"max_position_embeddings":131072}}`,
		"gpt-oss-20b": `{"model_type":"gpt_oss","hidden_size":2880,"num_hidden_layers":24,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,"intermediate_size":2880,
			"num_local_experts":32,"num_experts_per_tok":4,"sliding_window":128,"vocab_size":201088,"tie_word_embeddings":false,"max_position_embeddings":131072,"quantization_config":{"quant_method":"mxfp4","modules_to_not_convert":["model.layers.*.self_attn"]}}`,
		"deepseek-v3": `{"model_type":"deepseek_v3","hidden_size":7168,"num_hidden_layers":61,"num_attention_heads":128,"num_key_value_heads":128,"intermediate_size":18432,
			"moe_intermediate_size":2048,"n_routed_experts":256,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":3,"kv_lora_rank":512,"q_lora_rank":1536,"qk_rope_head_dim":64,
			"qk_nope_head_dim":128,"v_head_dim":128,"vocab_size":129280,"max_position_embeddings":163840,"tie_word_embeddings":false,"quantization_config":{"quant_method":"fp8","activation_scheme":"dynamic"}}`,
		"kimi-k2.5": `{"model_type":"kimi_k25","text_config":{"model_type":"kimi_k2","hidden_size":7168,"num_hidden_layers":61,"num_attention_heads":64,"num_key_value_heads":64,"intermediate_size":18432,
			"moe_intermediate_size":2048,"n_routed_experts":384,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":1,"kv_lora_rank":512,"q_lora_rank":1536,"qk_rope_head_dim":64,
			"qk_nope_head_dim":128,"v_head_dim":128,"vocab_size":163840,"max_position_embeddings":131072,"tie_word_embeddings":false,
			"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":4},"input_activations":null}},"ignore":["lm_head","re:.*self_attn.*"]}}}`,
		"llama-4-maverick": `{"model_type":"llama4","text_config":{"model_type":"llama4_text","hidden_size":5120,"num_hidden_layers":48,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,
			"intermediate_size":8192,"intermediate_size_mlp":16384,"num_local_experts":128,"num_experts_per_tok":1,"interleave_moe_layer_step":2,"attention_chunk_size":8192,"vocab_size":202048,
			"max_position_embeddings":1048576,"tie_word_embeddings":false}}`,
		"glm-4.5-air": `{"model_type":"glm4_moe","hidden_size":4096,"num_hidden_layers":46,"num_attention_heads":96,"num_key_value_heads":8,"head_dim":128,"intermediate_size":10944,"moe_intermediate_size":1408,
			"n_routed_experts":128,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":1,"vocab_size":151552,"max_position_embeddings":131072,"tie_word_embeddings":false}`,
		"phi-3.5-moe": `{"model_type":"phimoe","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":6400,"num_local_experts":16,"num_experts_per_tok":2,
			"vocab_size":32064,"sliding_window":131072,"max_position_embeddings":131072,"tie_word_embeddings":false}`,
		"deepseek-v3.2": `{"model_type":"deepseek_v32","hidden_size":7168,"num_hidden_layers":61,"num_attention_heads":128,"num_key_value_heads":128,"intermediate_size":18432,
			"moe_intermediate_size":2048,"n_routed_experts":256,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":3,"kv_lora_rank":512,"q_lora_rank":1536,"qk_rope_head_dim":64,
			"qk_nope_head_dim":128,"v_head_dim":128,"index_head_dim":128,"index_n_heads":64,"index_topk":2048,"vocab_size":129280,"max_position_embeddings":163840,"tie_word_embeddings":false,
			"quantization_config":{"quant_method":"fp8","activation_scheme":"dynamic","weight_block_size":[128,128]}}`,
		"glm-5": `{"model_type":"glm_moe_dsa","hidden_size":6144,"num_hidden_layers":78,"num_attention_heads":64,"num_key_value_heads":64,"head_dim":64,"intermediate_size":12288,
			"moe_intermediate_size":2048,"n_routed_experts":256,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":3,"kv_lora_rank":512,"q_lora_rank":2048,"qk_rope_head_dim":64,
			"qk_nope_head_dim":192,"v_head_dim":256,"index_head_dim":128,"index_n_heads":32,"index_topk":2048,"vocab_size":154880,"max_position_embeddings":202752,"tie_word_embeddings":false}`,
		"qwen3.5-27b": `{"model_type":"qwen3_5","tie_word_embeddings":false,"text_config":{"model_type":"qwen3_5_text","hidden_size":5120,"num_hidden_layers":64,"num_attention_heads":24,"num_key_value_heads":4,
			"head_dim":256,"intermediate_size":17408,"attn_output_gate":true,"full_attention_interval":4,"linear_num_key_heads":16,"linear_key_head_dim":128,"linear_num_value_heads":48,
			"linear_value_head_dim":128,"linear_conv_kernel_dim":4,"mamba_ssm_dtype":"float32","vocab_size":248320,"max_position_embeddings":262144}}`,
	} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := readModel(dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, err := FindModel(name)
		if err != nil {
			t.Fatal(err)
		}
		fit := Fit{TP: 1, PP: 1, DP: 1, MaxBatch: 2048}
		read, known := fit, fit
		read.Model, known.Model = got, want
		if got.Params() != want.Params() || got.Active() != want.Active() || got.Name != name || got.Context != want.Context ||
			read.KVBytesPerToken(131072) != known.KVBytesPerToken(131072) || read.weightBytes() != known.weightBytes() {
			t.Errorf("%s: read %+v\nwant %+v", name, got, want)
		}
	}
}

func TestConfigsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"model_type":"qwen3_next"}`: `model_type is "qwen3_next", which has layers without attention over a KV cache: hybrids are not supported`,
		`{"model_type":"qwen3_5_text","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100,"intermediate_size":9,"layer_types":["full_attention","linear_attention"]}`: `keys that begin with linear_ do not describe its linear layers`,
		`{"model_type":"bert"}`: `model_type is "bert", must be one of llama, `,
		`{"model_type":"llama","layer_types":["full_attention","linear_attention"]}`:                                                                                              `layer_types[1] is "linear_attention": hybrids are not supported`,
		`{"model_type":"llama","hidden_size":64}`:                                                                                                                                 `num_hidden_layers is 0, must be > 0`,
		`{"model_type":"llama","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100}`:                                                                  `intermediate_size, `,
		`{"model_type":"llama","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100,"intermediate_size":9,"quantization_config":{"quant_method":"x"}}`: `quantization_config: quant_method is "x", must be `,
		`{"model_type":"llama","hidden_size":-64}`:                                                                                                                                `hidden_size is -64, must be 0 to 100000000`,
		`{"model_type":"llama","first_k_dense_replace":-3}`:                                                                                                                       `first_k_dense_replace is -3, must be 0 to 100000000`,
		`[]`: `json: cannot unmarshal array`,
	} {
		if _, err := parseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"H10": "did you mean h100?", "abacus": "`replay gpus` lists them",
	} {
		if _, err := FindGPU(name, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if _, err := FindModel("lama-3.1-70b"); err == nil || !strings.Contains(err.Error(), "did you mean llama-3.1-70b?") {
		t.Error(err)
	}
}
