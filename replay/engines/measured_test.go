package engines

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/timing"
)

// TestMeasuredPassTimes checks the description of pass times by measured operators: the measured engine release, the
// shapes that were not measured, and the errors on servers of the kind.
func TestMeasuredPassTimes(t *testing.T) {
	for path, c := range map[string]struct {
		text []string
		kind accuracy.Kind
	}{
		"silicon:h100/llama-3.1-70b?tp=4&weights=fp8&engine=vllm-0.33": {
			[]string{"measured operators of h100 (vLLM 0.24.0), ", " shapes interpolated; on 90 servers of this kind mean TPOT was ", " off"},
			accuracy.Kind{Engine: "vllm", Family: "llama", Weights: "fp8", Generation: "Hopper", GPUs: accuracy.SeveralGPUs, Shape: accuracy.Dense},
		},
		"silicon:b200/deepseek-r1?tp=4&weights=nvfp4&engine=sglang-0.5.23": {
			[]string{"measured operators of b200 (SGLang 0.5.14), ", "; on 46 servers of this kind"},
			accuracy.Kind{Engine: "sglang", Family: "deepseek_v3", Weights: "nvfp4", Generation: "Blackwell", GPUs: accuracy.SeveralGPUs, Shape: accuracy.WithExperts},
		},
		"silicon:l4/gemma-2-9b?engine=vllm-0.33": {
			[]string{"measured operators of l4, scaled from another GPU by data sheets", " servers of the nearest kind ("},
			accuracy.Kind{Engine: "vllm", Family: "gemma2", Weights: "bfloat16", Generation: "Ada", GPUs: accuracy.OneGPU, Shape: accuracy.Dense},
		},
	} {
		a := &engineargs.Args{PassTimes: timing.ParseSource(path)}
		for _, want := range c.text {
			if got := passTimes(a); !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %q in it", path, got, want)
			}
		}
		if k, err := KindOf(a); err != nil || k != c.kind {
			t.Errorf("%s: %+v, %v, want %+v", path, k, err, c.kind)
		}
		if b, ok := BandOf(a); !ok || b.Rows < accuracy.MinClassRows || b.Low > b.Median || b.Median > b.High {
			t.Errorf("%s: the band is %+v", path, b)
		}
	}
	if _, ok := BandOf(&engineargs.Args{PassTimes: timing.ParseSource("roofline:h100/llama-3.1-8b")}); ok {
		t.Error("data sheets have a band of measured operators")
	}
}
