package plans

import (
	"math"
	"slices"
	"testing"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Pass times of a band are centred on its bias. Nine tenths of the factors are within its ends; each side has a
// separate width.
func TestFactorsOfBand(t *testing.T) {
	e := errorInBand(&accuracy.Band{Rows: 50, Median: -20, Low: -36, High: 0})
	if math.Abs(e.centre-1.25) > 1e-12 {
		t.Errorf("the centre is %v for times that are 20 %% short, want 1.25", e.centre)
	}
	const n = 1000
	factors := passFactors(n, e, 42)
	slices.Sort(factors)
	count := func(low, high float64) (k int) {
		for _, x := range factors {
			if x >= low && x <= high {
				k++
			}
		}
		return k
	}
	// Of the 10th and the 90th percentile of the errors, which are the 90th and the 10th of the factors, the first is
	// widened.
	if k := count(e.high, 10); k < 45 || k > 55 {
		t.Errorf("%d of %d factors are above %v, want a twentieth", k, n, e.high)
	}
	if k := count(1/(1-0.36), 10); k < 95 || k > 105 {
		t.Errorf("%d of %d factors are above the band, want a tenth", k, n)
	}
	// A tenth of the servers were faster than the second server. No resample is as fast.
	if factors[0] != 1 || count(1, 1) < 95 || count(1, 1) > 105 {
		t.Errorf("the least factor is %v, %d times, want 1 in a tenth", factors[0], count(1, 1))
	}
	if middle := (factors[n/2-1] + factors[n/2]) / 2; math.Abs(middle-1.25) > 0.002 {
		t.Errorf("the median is %v, want 1.25", middle)
	}
	if text := e.String(); text != "+0 to +66%" {
		t.Errorf("%q of factors from %v to %v", text, e.low, e.high)
	}
}

// A given share is symmetric around 1 for all pass times, and share 0 changes no pass.
func TestGivenErrorIsSymmetric(t *testing.T) {
	engine := engineargs.Args{PassTimes: timing.ParseSource("silicon:h100/llama-3.1-70b?tp=4&engine=vllm-0.33")}
	spec := &replay.Spec{Topology: engines.Topology{Pools: engines.OnePool(engine, 1)}}
	e := (&planFlags{modelError: 0.15}).modelErrorOf(spec)
	if factors := passFactors(1, e, 1); factors[0] != 1 || e.most() != 0.15 || e.String() != "±15%" {
		t.Errorf("%v, %v, %v", factors, e.most(), e)
	}
	if none := (&planFlags{}).modelErrorOf(spec); none.isGiven() || !slices.Equal(passFactors(3, none, 1), []float64{1, 1, 1}) {
		t.Errorf("%+v", none)
	}
}

// Without --model-error, the error is that of published servers of the kind. With several kinds of workers it is the
// widest error.
func TestErrorIsThatOfClass(t *testing.T) {
	f := &planFlags{modelError: -1}
	of := func(paths ...string) passError {
		var kinds []replay.Kind
		for _, path := range paths {
			kinds = append(kinds, replay.Kind{Name: "k", Count: 1, Engine: engineargs.Args{PassTimes: timing.ParseSource(path)}})
		}
		spec := &replay.Spec{Topology: engines.Topology{Pools: []replay.Pool{replay.Mix(kinds)}}}
		return f.modelErrorOf(spec)
	}
	const narrow, wide = "silicon:h100/qwen3-32b?tp=4&engine=sglang-0.5.23", "silicon:b200/deepseek-r1?tp=4&weights=nvfp4&engine=sglang-0.5.23"
	e, err := accuracy.Load()
	if err != nil {
		t.Fatal(err)
	}
	b, ok := e.BandOf(accuracy.Kind{Engine: "sglang", Family: "qwen3", Weights: "bfloat16", Generation: "Hopper", GPUs: accuracy.SeveralGPUs, Shape: accuracy.Dense})
	if !ok || of(narrow) != errorInBand(&b) {
		t.Errorf("%+v, want that of %+v", of(narrow), b)
	}
	if of(narrow, wide) != of(wide) || of(wide, narrow) != of(wide) || of(wide) == of(narrow) {
		t.Errorf("%+v of two kinds, want the wider one: %+v", of(narrow, wide), of(wide))
	}
	if got := of("roofline:h100/qwen3-32b?tp=4"); got.String() != "±50%" { // by the reference's rules, where no resample is as fast
		t.Errorf("%+v by data sheets: %v", got, got)
	}
	got := errorOf(&engineargs.Args{Engine: engineargs.SGLang, PassTimes: timing.ParseSource("roofline:h100/qwen3-32b?tp=4")}) // on the only measured server, replays were 18.6 to 37.8 % too fast
	if got.high != 1+unknownError || math.Abs(got.lowest()-1/(1-0.186)) > 0.001 || got.String() != "+23 to +50%" || slices.Min(passFactors(20, got, 1)) != roundFactor(got.fast) {
		t.Errorf("%+v by data sheets: %v", got, got)
	}
	if got := of(""); got.isGiven() {
		t.Errorf("%+v of the built-in model", got)
	}
}
