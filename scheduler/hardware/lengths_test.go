package hardware

import (
	"fmt"
	"strings"
	"testing"
)

// shape is the remaining text of a config.json.
const shape = `"hidden_size":64,"intermediate_size":64,"num_attention_heads":1,"num_key_value_heads":1,"num_hidden_layers":1,"vocab_size":32000`

// The longest sequence of a model equals the value derived by vLLM 0.33, vLLM 0.28 (_get_and_verify_max_len) and
// SGLang 0.5.23 (get_context_length).
func TestLongestOfConfig(t *testing.T) {
	factors := strings.TrimSuffix(strings.Repeat("1.0,", 32), ",")
	for _, c := range []struct {
		name, config       string
		vllm, older, other int
	}{
		{"none", `"model_type":"llama","max_position_embeddings":4096`, 4096, 4096, 4096},
		{"null", `"model_type":"llama","max_position_embeddings":4096,"rope_scaling":null`, 4096, 4096, 4096},
		{"null factor", `"model_type":"llama","max_position_embeddings":4096,"rope_scaling":{"type":"linear","factor":null}`, 4096, 4096, 4096},
		{"linear", `"model_type":"llama","max_position_embeddings":4096,"rope_scaling":{"type":"linear","factor":4.0}`, 16384, 16384, 16384},
		{"half", `"model_type":"llama","max_position_embeddings":4096,"rope_scaling":{"rope_type":"linear","factor":2.5}`, 10240, 10240, 10240},
		{"dynamic", `"model_type":"llama","max_position_embeddings":4096,"rope_scaling":{"type":"dynamic","factor":2.0}`, 8192, 8192, 8192},
		{"parameters", `"model_type":"llama","max_position_embeddings":4096,"rope_parameters":{"rope_type":"linear","factor":4.0,"rope_theta":10000.0}`, 16384, 16384, 16384},
		{"llama3", `"model_type":"llama","max_position_embeddings":131072,
			"rope_scaling":{"rope_type":"llama3","factor":8.0,"original_max_position_embeddings":8192}`, 131072, 131072, 131072},
		{"yarn", `"model_type":"qwen2","max_position_embeddings":32768,
			"rope_scaling":{"type":"yarn","factor":4.0,"original_max_position_embeddings":32768}`, 32768, 131072, 32768},
		{"yarn, scaled", `"model_type":"llama","max_position_embeddings":131072,
			"rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32768}`, 131072, 131072, 131072},
		{"yarn, bare", `"model_type":"llama","max_position_embeddings":32768,"rope_scaling":{"rope_type":"yarn","factor":4.0}`, 32768, 131072, 32768},
		{"longrope", `"model_type":"phi3","max_position_embeddings":131072,"original_max_position_embeddings":4096,
			"rope_scaling":{"type":"longrope","short_factor":[` + factors + `],"long_factor":[` + factors + `]}`, 4096, 4096, 131072},
		{"gemma3", `"model_type":"gemma3_text","max_position_embeddings":131072,"rope_scaling":{"factor":8.0,"rope_type":"linear"}`, 131072, 131072, 131072},
	} {
		m, err := parseConfig([]byte("{" + shape + "," + c.config + "}"))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		newer, older, sglang := Fit{Model: m}, Fit{Model: m, TimesYarn: true}, Fit{Model: m, SGLang: true}
		got := fmt.Sprint(newer.LongestSequence(), older.LongestSequence(), sglang.LongestSequence())
		if want := fmt.Sprint(c.vllm, c.older, c.other); got != want {
			t.Errorf("%s: vLLM, vLLM before 0.30 and SGLang take %s tokens, want %s", c.name, got, want)
		}
	}
}

func TestWrongRope(t *testing.T) {
	for _, bad := range []string{`{"type":"linear","factor":0}`, `{"type":"linear","factor":1e9}`, `{"type":"yarn","factor":2,"original_max_position_embeddings":-1}`, `4`} {
		if _, err := parseConfig([]byte(`{` + shape + `,"model_type":"llama","rope_scaling":` + bad + `}`)); err == nil || !strings.Contains(err.Error(), "rope_scaling") {
			t.Errorf("%s: %v, want an error that names rope_scaling", bad, err)
		}
	}
}
