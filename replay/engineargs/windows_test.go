package engineargs

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler/vllm"
)

// TestWindows checks that layers with windows are grouped as in vLLM.
func TestWindows(t *testing.T) {
	for _, c := range []struct {
		text string
		want vllm.Windows
	}{
		{`"sliding_window":128,"layer_types":["sliding_attention","full_attention"]`, vllm.Windows{Tokens: 128, Groups: 1, Full: 1}},
		{`"sliding_window":128,"layer_types":["full_attention","sliding_attention","sliding_attention"]`, vllm.Windows{Tokens: 128, Groups: 2, Full: 1, FullFirst: true}},
		{`"attention_chunk_size":8192,"layer_types":["chunked_attention","chunked_attention","chunked_attention","full_attention"]`, vllm.Windows{Tokens: 8192, Chunked: true, Groups: 3, Full: 1}},
		{`"sliding_window":4096`, vllm.Windows{Tokens: 4096, Groups: 1}},
		{`"sliding_window":4096,"disable_hybrid_kv_cache_manager":true`, vllm.Windows{Tokens: 4096, Groups: 1}},
		{`"sliding_window":128,"layer_types":["sliding_attention","full_attention"],"disable_hybrid_kv_cache_manager":true`, vllm.Windows{}},
		{`"sliding_window":128,"layer_types":["full_attention"]`, vllm.Windows{}},
		{`"layer_types":["full_attention"]`, vllm.Windows{}},
	} {
		a, err := Parse([]byte(`{"scheduler_profile":"vllm",`+c.text+`}`), Options{})
		if err != nil || a.Windows != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.text, a.Windows, err, c.want)
		}
	}
	for text, want := range map[string]string{
		`"sliding_window":1`:                     "sliding_window and layer_types: a window of 1 tokens, must be at least 2",
		`"attention_chunk_size":100`:             "attention_chunk_size and layer_types: chunks of 100 tokens, must be a multiple of the 64 of a block",
		`"sliding_window":128,"num_g2_blocks":5`: "num_g2_blocks is 5, not supported with sliding_window",
		`"sliding_window":8,"layer_types":["full_attention"` + strings.Repeat(`,"sliding_attention"`, 16) + `]`: "16 groups with windows and 1 without, must",
	} {
		if _, err := Parse([]byte(`{"scheduler_profile":"vllm",`+text+`}`), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
