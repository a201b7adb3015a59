package silicon

import (
	"math"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler/optables"
)

// pick returns the total time of the parts with the given names.
func pick(all []Part, names ...string) float64 {
	total := 0.0
	for i := range all {
		for _, name := range names {
			if all[i].Name == name {
				total += all[i].Ms()
			}
		}
	}
	return total
}

// decodePass and promptPass return all operators of a pass.
func decodePass(c *Composer, requests, length int) []Part {
	return append(append(c.Linear(requests, false), c.Head(requests)...), c.Decode(requests, length)...)
}

func promptPass(c *Composer, tokens, past int) []Part {
	return append(append(c.Linear(tokens, true), c.Head(1)...), c.Prompts(1, tokens, past)...)
}

// TestSparseBlocks sums the time of a layer of sparse attention, in ms, and compares with the rows of the wheel's
// tables, of the fastest engine.
func TestSparseBlocks(t *testing.T) {
	for _, c := range []struct {
		path          string
		layers        float64
		requests      int
		decode, whole float64 // decode: requests of 4096 tokens and the computed token; whole: a prompt of 8192 tokens
		behind        float64 // 8192 tokens after 32768 past tokens
	}{
		{"b200/glm-5?tp=8&weights=fp8_block&kv=fp8", 78, 8, 0.0830, 2.3463, 4.1426},
		{"b200/glm-5?tp=8&weights=fp8_block&kv=fp8", 78, 64, 0.1170, 2.3463, 4.1426},
		{"b200/deepseek-v3.2?tp=8&kv=fp8", 61, 8, 0.0879, 2.7809, 5.4129},
	} {
		x := compose(t, c.path, optables.SGLang)
		near := func(what string, got, want float64) {
			t.Helper()
			if math.Abs(got/want-1) > 0.004 {
				t.Errorf("%s: %s takes %.4f ms a layer, want %.4f", c.path, what, got, want)
			}
		}
		layer := func(all []Part, tokens int) float64 {
			var projections parts
			x.projectLatent(&projections, tokens)
			names := []string{"attention block of decoding without its projections", "attention block of prompts without its projections", "attention to the past"}
			return (Sum(projections) + pick(all, names...)) / c.layers
		}
		near("decoding", layer(decodePass(x, c.requests, 4097), c.requests), c.decode)
		near("a prompt", layer(promptPass(x, 8192, 0), 8192), c.whole)
		near("a prompt behind others", layer(promptPass(x, 8192, 32768), 8192), c.behind)
	}
}

// TestStates sums the time of a layer of linear attention without products, like TestSparseBlocks. A row that is
// slower than the row of an older GPU is replaced by it: the convolution of decoding is from H100, and the rule of
// prompts from H200.
func TestStates(t *testing.T) {
	c := compose(t, "b200/qwen3.5-397b-a17b?tp=8&weights=fp8_block", optables.SGLang)
	for _, x := range []struct {
		what string
		all  []Part
		name string
		want float64 // time per layer in ms
	}{
		{"decoding 32", decodePass(c, 32, 3000), "convolution of linear attention", 0.001884},
		{"decoding 32", decodePass(c, 32, 3000), "linear attention of decoding", 0.0072182},
		{"decoding 128", decodePass(c, 128, 300), "linear attention of decoding", 0.0233702},
		{"a prompt of 2048", promptPass(c, 2048, 0), "convolution of linear attention", 0.0070163},
		{"a prompt of 2048", promptPass(c, 2048, 6000), "linear attention of prompts", 0.087405},
	} {
		if got := pick(x.all, x.name) / 45; math.Abs(got/x.want-1) > 0.004 {
			t.Errorf("%s: %s takes %.6f ms a layer, want %.6f", x.what, x.name, got, x.want)
		}
	}
}

// Each layer has one kind of attention with its products: 15 layers have keys and values, and 45 layers have a state.
func TestLayersOfBothKinds(t *testing.T) {
	c := compose(t, "b200/qwen3.5-397b-a17b?tp=4&weights=fp8_block", optables.SGLang)
	calls := map[string]float64{}
	for _, p := range decodePass(c, 16, 1000) {
		calls[p.Name] += p.Calls
	}
	for name, want := range map[string]float64{
		"query, key and value": 15, "output of attention": 15, "attention of decoding": 15, "to linear attention": 45, "gates of linear attention": 45,
		"output of linear attention": 45, "linear attention of decoding": 45,
		"norm and gate of linear attention": 45, "gate of attention": 15, "experts": 60, "norms": 120, "all-reduce around experts": 120,
	} {
		if calls[name] != want {
			t.Errorf("%s: %g calls, want %g", name, calls[name], want)
		}
	}
	for name := range calls {
		if strings.Contains(name, "latent") {
			t.Errorf("%s is an operator of another family", name)
		}
	}
}

// Passes of GLM-5 take the time that aiconfigurator-core 0.12.0 estimates for SGLang. For rows of other engines, the
// lowest time counts here.
func TestSparsePasses(t *testing.T) {
	c := compose(t, "b200/glm-5?tp=8&weights=fp8_block&kv=fp8", optables.SGLang)
	for _, x := range []struct {
		what string
		all  []Part
		want float64
	}{
		{"decoding 32 requests of 4096 tokens", decodePass(c, 32, 4096), 19.351},
		{"a prompt of 2048 tokens", promptPass(c, 2048, 0), 97.858},
		{"8192 tokens behind 8192", promptPass(c, 8192, 8192), 398.877},
	} {
		if got := Sum(x.all); math.Abs(got/x.want-1) > 0.05 {
			t.Errorf("%s: %.3f ms, want %.3f", x.what, got, x.want)
		}
	}
}
