package engines

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/hardware"
)

// TestGroupWindows checks that a vLLM server groups the layers of a model with windows, unless a setting disables
// groups. TestGroupWindows also checks the report, and that a block has room for the largest group.
func TestGroupWindows(t *testing.T) {
	for _, c := range []struct {
		model, args, says string
		layers            int // layers of the largest group
		whole             bool
	}{
		{"gemma-3-27b", `{}`, "in 7 groups of layers, and in 6 with a window of 1024 tokens gives up", 10, false},
		{"llama-4-scout", `{}`, "in 4 groups of layers, and in 3 with chunks of 8192 tokens gives up", 12, false},
		{"gpt-oss-120b", `{"scheduler_profile":"vllm-0.19"}`, "in 2 groups of layers, and in 1 with a window of 128 tokens gives up", 18, false},
		{"gemma-3-27b", `{"disable_hybrid_kv_cache_manager":true}`, "layers with sliding windows keep all tokens", 0, true},
		{"gemma-3-27b", `{"num_g2_blocks":100,"kv_bytes_per_token":1000}`, "layers with sliding windows keep all tokens", 0, true},
		{"gemma-3-27b", `{"scheduler_profile":"reference"}`, "as in the longest sequences", 0, false},
		{"gemma-3-27b", `{"engine_type":"sglang"}`, "layers with sliding windows keep all tokens", 0, false},
		{"gpt-oss-120b", `{"engine_type":"sglang"}`, "layers with a window of 127 tokens have 0.8 times as many", 0, false},
		{"gpt-oss-120b", `{"engine_type":"sglang","sglang":{"disable_hybrid_swa_memory":true}}`, "layers with sliding windows keep all tokens", 0, false},
		{"llama-4-scout", `{"engine_type":"sglang","sglang":{"swa_full_tokens_ratio":0.1}}`, "layers with a window of 8192 tokens have 0.1 times as many", 0, false},
		{"gemma-3-27b", `{"scheduler_profile":"vllm","sliding_window":512}`, "gives up what a window of 512 tokens has passed", 10, false},
		{"llama-3.1-8b", `{}`, "(16384 blocks of", 0, false},
	} {
		f, err := hardware.ParseFit("h100/" + c.model)
		if err != nil {
			t.Fatal(err)
		}
		gives := func(key string) bool { return engineargs.Gives([]byte(c.args), nil, key) }
		a, err := engineargs.Parse([]byte(c.args), engineargs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		unless := OnServer(&a, &f, gives)
		unless = append(unless, engineargs.Setting{Key: "planner_profile_data", Value: `"roofline:h100/` + c.model + `"`})
		if a, err = engineargs.Parse([]byte(c.args), engineargs.Options{Unless: unless}); err != nil {
			t.Fatalf("%s %s: %v", c.model, c.args, err)
		}
		g := OnEngine(f, &a).Groups
		if g.Layers != c.layers || g.KeepAll != c.whole || !strings.Contains(describeBlocks(&a), c.says) {
			t.Errorf("%s %s: %+v; %s", c.model, c.args, g, describeBlocks(&a))
		}
	}
}
