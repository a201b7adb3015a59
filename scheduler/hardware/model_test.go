package hardware

import (
	"math"
	"testing"
)

// TestParamsArePublished compares the shapes with the published sizes.
func TestParamsArePublished(t *testing.T) {
	published := map[string][2]float64{ // billions: all weights, active weights per token (0: all)
		"llama-3.2-1b": {1.24, 0}, "llama-3.2-3b": {3.21, 0}, "llama-3.1-8b": {8.03, 7.5}, "llama-3.1-70b": {70.6, 0},
		"llama-3.1-405b": {405.9, 0}, "llama-4-scout": {107.8, 17.2}, "llama-4-maverick": {400.7, 17.2},
		"qwen2.5-0.5b": {0.494, 0}, "qwen2.5-1.5b": {1.54, 0}, "qwen2.5-3b": {3.09, 0}, "qwen2.5-7b": {7.62, 0}, "qwen2.5-14b": {14.77, 0},
		"qwen2.5-32b": {32.8, 0}, "qwen2.5-72b": {72.7, 0}, "qwen3-0.6b": {0.596, 0}, "qwen3-1.7b": {1.72, 0}, "qwen3-4b": {4.02, 0},
		"qwen3-8b": {8.19, 0}, "qwen3-14b": {14.77, 0}, "qwen3-32b": {32.76, 0}, "qwen3-30b-a3b": {30.5, 3.3}, "qwen3-235b-a22b": {235.1, 22},
		"qwen3-coder-480b-a35b": {480, 35}, "mistral-7b": {7.25, 0}, "mistral-nemo-12b": {12.25, 0}, "mistral-small-24b": {23.6, 0},
		"mistral-large-123b": {122.6, 0}, "mixtral-8x7b": {46.7, 12.9}, "mixtral-8x22b": {140.6, 39}, "gemma-2-9b": {9.24, 0},
		"gemma-2-27b": {27.2, 0}, "gemma-3-4b": {3.88, 0}, "gemma-3-12b": {11.77, 0}, "gemma-3-27b": {27.0, 0},
		"deepseek-v2-lite": {15.7, 2.4}, "deepseek-v3": {671, 37}, "kimi-k2": {1026, 32}, "gpt-oss-20b": {20.9, 3.6},
		"gpt-oss-120b": {116.8, 5.1}, "glm-4-9b": {9.4, 0}, "glm-4-32b": {32.6, 0}, "glm-4.5-air": {106, 12}, "glm-4.5": {353, 32},
		"phi-3-mini": {3.82, 0}, "phi-3-medium": {13.96, 0}, "phi-4": {14.66, 0}, "phi-4-mini": {3.84, 0}, "phi-3.5-moe": {41.9, 6.6},
		"glm-5": {744, 40}, "deepseek-v3.2": {671, 37}, "qwen3.5-27b": {27, 0}, "qwen3.5-35b-a3b": {35, 3}, "qwen3.5-122b-a10b": {122, 10}, "qwen3.5-397b-a17b": {397, 17},
	}
	if n := len(Models()); n < 40 {
		t.Errorf("%d models, want 40 or more", n)
	}
	for _, m := range Models() {
		want, ok := published[m.Name]
		if !ok {
			continue
		}
		if got := m.Params() / 1e9; math.Abs(got/want[0]-1) > 0.012 {
			t.Errorf("%s has %.3f billion weights, want %.3f", m.Name, got, want[0])
		}
		if got := m.Active() / 1e9; want[1] > 0 && math.Abs(got/want[1]-1) > 0.1 {
			t.Errorf("%s has %.3f billion active weights, want %.1f", m.Name, got, want[1])
		}
	}
}
