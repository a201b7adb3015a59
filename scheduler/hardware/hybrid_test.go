package hardware

import (
	"math"
	"strings"
	"testing"
)

// The block sizes of models with linear layers equal the sizes that vLLM servers log: 784 tokens for the shape of
// Qwen3.5-27B on one GPU, 544 for Qwen3.5-0.8B.
func TestStateBlocks(t *testing.T) {
	small := Model{Layers: 24, Heads: 8, KVHeads: 2, HeadSize: 256,
		Linear: &LinearLayers{Layers: 18, KeyHeads: 16, KeySize: 128, ValueHeads: 16, ValueSize: 128, Conv: 4, StateBytes: 4}}
	for _, c := range []struct {
		fit            Fit
		tokens, blocks int
	}{
		{fitOf(t, "h100/qwen3.5-27b"), 784, 3},
		{Fit{Model: small, TP: 1, PP: 1, DP: 1}, 544, 3},
		{fitOf(t, "h200/qwen3.5-397b-a17b?tp=8"), 528, 3},
		{fitOf(t, "h100/llama-3.1-8b"), 16, 0},
	} {
		if tokens, blocks := c.fit.StateBlocks(); tokens != c.tokens || blocks != c.blocks {
			t.Errorf("%s: %d blocks of %d tokens, want %d of %d", c.fit.Model.Name, blocks, tokens, c.blocks, c.tokens)
		}
	}
}

func fitOf(t *testing.T, path string) Fit {
	t.Helper()
	f, err := ParseFit(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A sequence of n tokens takes as much of the KV cache as its blocks and the blocks of its state. A block of vLLM
// covers 15 layers.
func TestStatesTakeBlocks(t *testing.T) {
	f := fitOf(t, "h200/qwen3.5-397b-a17b?tp=8")
	f.Live = 2000
	block := 528.0 * 2 * 256 * 2 * 15 // tokens, keys and values, values per head, bytes, layers
	if got, want := f.liveBytesPerToken()*2000, block*(4+3); math.Abs(got/want-1) > 1e-9 {
		t.Errorf("a sequence of 2000 tokens takes %.0f bytes, want %.0f", got, want)
	}
	f.SGLang = true
	if got, want := f.liveBytesPerToken()*2000, 2000.0*2*256*2*15+45*(8*128*128*4+1536*3*2); math.Abs(got/want-1) > 1e-9 {
		t.Errorf("under SGLang it takes %.0f bytes, want %.0f", got, want)
	}
}

// By the layouts of its kernels, a token of sparse attention takes 656 bytes with 8 bits and 1152 with 16. The
// indexer's key takes 132 bytes. All sizes are per layer.
func TestSparseTokens(t *testing.T) {
	for path, want := range map[string]float64{
		"h200/deepseek-v3.2?tp=8&kv=fp8": 61 * (656 + 132), "h200/deepseek-v3.2?tp=8": 61 * (1152 + 132), "h200/glm-5?tp=8&weights=fp8_block": 78 * (1152 + 132),
	} {
		f := fitOf(t, path)
		if got := f.CacheBytesPerToken(); got != want {
			t.Errorf("%s: %.0f bytes a token, want %.0f", path, got, want)
		}
		long, short := f.ReadBytes(100_000), f.ReadBytes(50_000)
		if perToken := (long - short) / 50_000; perToken != 132*float64(f.Model.Layers) {
			t.Errorf("%s: a pass reads %.0f bytes of a token that is not chosen, want the indexer's key", path, perToken)
		}
	}
}

// Known models that are not simulated are rejected with the reason.
func TestRefusedModels(t *testing.T) {
	for name, want := range map[string]string{
		"deepseek-ai/DeepSeek-V4-Pro": "compressed keys and values", "kimi-k3": "KDA", "zai-org/GLM-5.2-FP8": "another layer's indexer",
	} {
		if _, err := FindModel(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a reason with %q", name, err, want)
		}
	}
}

// The heads of linear layers must be divisible by TP: Qwen3.5-27B has 24 heads, and 16 key heads in its linear
// layers.
func TestLinearHeadsDivide(t *testing.T) {
	for tp, want := range map[int]bool{1: true, 2: true, 3: false, 4: true, 8: true, 12: false, 16: false} {
		f := fitOf(t, "h100/qwen3.5-27b")
		if f.TP = tp; f.Divides() != want {
			t.Errorf("--tp %d: divides %v, want %v", tp, f.Divides(), want)
		}
	}
}
