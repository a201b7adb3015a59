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

// TestTokensOfServers holds the tokens of KV cache to what vLLM printed as it
// started.
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
