package hardware

import (
	"errors"
	"math"
	"testing"
)

func find(t *testing.T, gpu, model string) Fit {
	t.Helper()
	g, err := FindGPU(gpu, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := FindModel(model)
	if err != nil {
		t.Fatal(err)
	}
	return Fit{GPU: g, Model: m, TP: 1, PP: 1, DP: 1, Utilization: 0.9, BlockTokens: 16, MaxSeqs: 256, MaxBatch: 2048}
}

// TestTokensOfServers compares the tokens of KV cache with startup logs of vLLM.
func TestTokensOfServers(t *testing.T) {
	for _, c := range []struct {
		gpu, model string
		change     func(*Fit)
		want       int
	}{
		{"NVIDIA GeForce RTX 4090", "meta-llama/Llama-3.1-8B", func(*Fit) {}, 41408},
		{"h100", "Qwen/Qwen3-14B", func(f *Fit) { f.Graphs = "none" }, 281008},
		{"h100", "qwen3-14b", func(f *Fit) { f.Utilization, f.BlockTokens = 0.75, 64 }, 198208},
	} {
		f := find(t, c.gpu, c.model)
		c.change(&f)
		b, err := f.Check()
		off := float64(b.Tokens)/float64(c.want) - 1
		t.Logf("%s on %s: %d tokens, printed %d: %+.2f %%", f.Model.Name, f.GPU.Name, b.Tokens, c.want, 100*off)
		if err != nil || math.Abs(off) > 0.05 {
			t.Errorf("%+v, %v: %d tokens, want %d within 5 %%", b, err, b.Tokens, c.want)
		}
	}
}

func TestTooLarge(t *testing.T) {
	f := find(t, "h100", "llama-3.1-70b")
	_, err := f.Check()
	var large *TooLargeError
	if !errors.As(err, &large) || large.LeastTP != 2 {
		t.Fatalf("%v, want from --tp 2 on", err)
	}
	t.Log(err)
	f.TP = large.LeastTP
	b, err := f.Check()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", b)
}

// A block has room for the layers of the largest group, and the longest sequence takes the blocks that all groups
// need. For 62 layers, of which 10 have no window, vLLM allocates a tenth of the blocks that a model of one layer
// would have.
func TestGroupedBlocks(t *testing.T) {
	f, err := ParseFit("h200/gemma-3-27b")
	if err != nil {
		t.Fatal(err)
	}
	f.MaxLength = 16_000
	f.Groups = Groups{Layers: 10, Blocks: 1000 + 6*578}
	b := f.Budget()
	block := 10.0 * 2 * 16 * 128 * 2 * 16 // layers, keys and values, heads, values, bytes, tokens
	if want := int(b.KV / block); b.Blocks != want {
		t.Errorf("%d blocks, want %d", b.Blocks, want)
	}
	if sequences := float64(b.Tokens) / 16_000; math.Abs(sequences*float64(f.Groups.Blocks)-float64(b.Blocks)) > 2 {
		t.Errorf("%d tokens in %d blocks, want as many as sequences of %d blocks have", b.Tokens, b.Blocks, f.Groups.Blocks)
	}
	f.Groups = Groups{KeepAll: true}
	if whole, want := f.Budget(), int(b.KV/(block*6.2)); whole.Blocks != want {
		t.Errorf("%d blocks where windows keep all tokens, want %d", whole.Blocks, want)
	}
}
