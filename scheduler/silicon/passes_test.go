package silicon

import (
	"math"
	"sync"
	"testing"

	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/optables"
)

// compose returns the composer of a fit with the built-in tables.
func compose(t testing.TB, path string, e optables.Engine) *Composer {
	t.Helper()
	f, err := hardware.ParseFit(path)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := optables.Load(f.GPU.Name)
	if err != nil {
		t.Fatal(err)
	}
	return NewComposer(&f, e, tables)
}

// fits are models of all kinds on different GPUs.
func fits() []string {
	return []string{"h100/llama-3.1-8b", "h200/llama-3.3-70b?tp=4", "b200/deepseek-v3?tp=8", "gb300/kimi-k2.5?tp=4&weights=nvfp4",
		"h100/gpt-oss-120b?tp=2", "l40s/qwen3-14b", "rtxpro6000/qwen3-32b?tp=2", "b200/qwen3-235b-a22b?tp=4&weights=fp8", "h100/gemma-3-27b", "h200/deepseek-v3?tp=1&dp=8&ep=8", "l4/llama-3.2-3b", "h100/llama-4-scout?tp=8",
		"b200/glm-5?tp=8&weights=fp8_block&kv=fp8", "h200/deepseek-v3.2?tp=8", "b200/qwen3.5-397b-a17b?tp=4&weights=fp8_block", "l40s/qwen3.5-27b?tp=4"}
}

// TestPassesEqualOperators compares the tables of passes with the sums of their operators.
func TestPassesEqualOperators(t *testing.T) {
	for _, path := range fits() {
		c := compose(t, path, optables.VLLM)
		p := NewPasses(c)
		for _, n := range []int{1, 3, 9, 37, 200, 500} {
			for _, length := range []int{40, 1000, 7777} {
				want := Sum(c.Linear(n, false)) + Sum(c.Head(n)) + Sum(c.Decode(n, length))
				line := p.Generation(n, int64(n*length))
				got := p.Decode(n, n) + line.At(int64(n*length))
				if math.Abs(got/want-1) > 0.03 || got <= 0 {
					t.Errorf("%s: decoding %d requests of %d tokens takes %.4f ms, its operators %.4f", path, n, length, got, want)
				}
			}
		}
		for _, x := range [][2]int{{100, 0}, {2048, 0}, {2048, 2048}, {8192, 0}, {512, 9000}} {
			n, past := x[0], x[1]
			pairs := float64(n) * (float64(past) + float64(n)/2)
			want := Sum(c.Linear(n, true)) + Sum(c.Head(1)) + Sum(c.Prompts(1, n, past))
			got := p.Mixed(n, 1) + p.Prompts(1, n, pairs)
			if math.Abs(got/want-1) > 0.03 {
				t.Errorf("%s: a prompt of %d behind %d takes %.4f ms, its operators %.4f", path, n, past, got, want)
			}
		}
	}
}

// The inputs of each block-scaled product are scaled by a separate kernel, which aiconfigurator-core leaves out.
// Products of other types have none.
func TestScalesOfBlocks(t *testing.T) {
	const name = "scales of blocks"
	for path, want := range map[string]float64{
		"h200/llama-3.1-8b?weights=fp8_block": 4 * 32, "b200/llama-3.3-70b?tp=2&weights=nvfp4": 4 * 80, "h200/qwen3-235b-a22b?tp=4&weights=fp8_block": 2 * 94,
		"h200/llama-3.1-8b?weights=fp8": 0, "h100/llama-3.1-8b": 0,
	} {
		c := compose(t, path, optables.VLLM)
		calls := func() (n float64) {
			for _, p := range c.Linear(16, false) {
				if p.Name == name {
					n += p.Calls
				}
			}
			return n
		}
		if got := calls(); got != want {
			t.Errorf("%s: inputs are scaled %g times, want %g", path, got, want)
		}
		if c.granular = true; calls() != 0 {
			t.Errorf("%s: inputs are scaled %g times as in aiconfigurator-core, want 0", path, calls())
		}
	}
}

// TestLinesAreKept compares cached lines with lines computed from the tables, with many goroutines.
func TestLinesAreKept(t *testing.T) {
	p := NewPasses(compose(t, "h200/llama-3.3-70b?tp=4", optables.VLLM))
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			for n := range mostKept + 2 {
				for _, length := range []int{0, 1, 700, 1 << 13, 1 << 19} {
					context := int64(max(n, 1)*length + n/2)
					rung := min(byLength.below(int(context)/max(n, 1)), len(p.generation[0].cells)-2)
					if got, want := p.Generation(n, context), p.line(max(n, 1), rung); got != want {
						t.Errorf("%d requests with %d tokens: %+v, made from the tables %+v", n, context, got, want)
					}
				}
			}
		})
	}
	wait.Wait()
}

func BenchmarkFirstPasses(b *testing.B) {
	for _, path := range fits() {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				p := NewPasses(compose(b, path, optables.VLLM))
				for _, n := range []int{1, 3, 9, 37, 200, 500} {
					for _, length := range []int{40, 1000, 7777} {
						p.Decode(n, n)
						p.Generation(n, int64(n*length))
						p.Mixed(n*10, n)
						p.Prompts(1, length, float64(length)*float64(length)/2)
					}
				}
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		compose(b, "b200/deepseek-v3?tp=8", optables.VLLM)
	}
}
