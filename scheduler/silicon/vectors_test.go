package silicon

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/optables"
)

// TestVectors composes passes that aiconfigurator-core 0.12.0 itself estimates, from each engine's own measurements:
// layers of dense products are priced as layers of experts there, and latent attention operator by operator.
func TestVectors(t *testing.T) {
	type pass struct {
		decodes, length, tokens, past int
		ms                            float64
	}
	for _, c := range []struct {
		path, gpu string
		engine    optables.Engine
		passes    []pass
	}{
		{"h100/llama-3.1-70b?tp=4", "h100", optables.VLLM, []pass{
			{1, 1024, 0, 0, 14.8644}, {8, 1000, 0, 0, 16.0952}, {37, 3000, 0, 0, 20.8779}, {128, 2222, 0, 0, 26.7100},
			{0, 0, 512, 0, 37.309}, {0, 0, 2048, 2048, 134.342}, {0, 0, 8192, 0, 576.764}}},
		{"rtxpro6000/llama-3.1-8b", "rtxpro6000", optables.VLLM, []pass{{1, 1024, 0, 0, 11.2316}, {128, 2222, 0, 0, 37.5089}, {0, 0, 4000, 1000, 178.276}}},
		{"h100/qwen3-32b?tp=2", "h100", optables.SGLang, []pass{{37, 3000, 0, 0, 19.3474}, {0, 0, 8192, 0, 500.901}}},
		{"gb300/kimi-k2.5?tp=4&weights=nvfp4", "gb300", optables.SGLang, []pass{{8, 1000, 0, 0, 9.030}, {64, 7200, 0, 0, 27.890}}},
	} {
		f, err := hardware.ParseFit(c.path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join("..", "optables", "testdata", c.gpu+"-"+c.engine.String()+optables.Extension))
		if err != nil {
			t.Fatal(err)
		}
		tables, err := optables.Open(text)
		if err != nil {
			t.Fatal(err)
		}
		composer := NewComposer(&f, c.engine, tables)
		composer.granular = true
		if f.Model.MoE != nil {
			composer.expertLayers = composer.layers
		}
		for _, p := range c.passes {
			var all []Part
			if p.tokens > 0 {
				all = append(composer.Linear(p.tokens, true), composer.Head(1)...)
				all = append(all, composer.Prompts(1, p.tokens, p.past)...)
			} else {
				all = append(composer.Linear(p.decodes, false), composer.Head(p.decodes)...)
				all = append(all, composer.Decode(p.decodes, p.length)...)
			}
			got := Sum(all)
			if math.Abs(got/p.ms-1) > 0.001 {
				t.Errorf("%s %v: %.4f ms, want %.4f", c.path, p, got, p.ms)
				for _, x := range all {
					t.Logf("    %-40s %4.0f x %.5f = %.4f %v", x.Name, x.Calls, x.Time.Ms, x.Ms(), x.Time.Source)
				}
			}
		}
	}
}
