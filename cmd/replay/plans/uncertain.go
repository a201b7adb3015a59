package plans

import (
	"fmt"
	"math"
	"strings"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/saturation"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// Errors of pass times, where the command line says none: half of the range in which
// nine of ten servers lie. docs/accuracy.md has what they rest on.
const (
	dataSheetError = 0.15 // by data sheets, of what was measured: the largest was 12 %
	unknownError   = 0.5  // by data sheets, of anything else: experts on four GPUs were -38 to -19 % off
	fittedError    = 0.1  // by a fitted profile, at other loads than its own: -7 to +13 %; on the rest of its own run 1 %
)

// modelErrorOf returns the error of a replay's pass times.
func (f *planFlags) modelErrorOf(spec *replay.Spec) float64 {
	if f.modelError >= 0 {
		return f.modelError
	}
	most := 0.0
	for _, k := range spec.Entry().Kinds() {
		most = max(most, errorOf(&k.Engine))
	}
	return most
}

// errorOf returns the error of an engine's pass times, unless it is given.
func errorOf(a *engineargs.Args) float64 {
	path := a.ProfilePath
	switch {
	case strings.HasPrefix(path, timing.RooflinePrefix) && !engines.DataSheetsMeasured(a):
		return unknownError
	case strings.HasPrefix(path, timing.RooflinePrefix):
		return dataSheetError
	case path != "":
		return fittedError
	default:
		return 0 // the built-in model is of no server
	}
}

// passFactors returns by how much longer passes take in each resample: the middles of as
// many equally likely parts of a log-normal distribution, nine tenths of which lie within
// the error, in an order drawn with seed.
func passFactors(n int, share float64, seed uint64) []float64 {
	factors := make([]float64, n)
	const nineTenths = 1.6448536269514722 // standard deviations
	for i, place := range sim.NewRand(seed, "model error").Perm(n) {
		z := math.Sqrt2 * math.Erfinv(2*(float64(place)+0.5)/float64(n)-1)
		factors[i] = math.Round(1e4*math.Exp(math.Log1p(share)*z/nineTenths)) / 1e4 // the same on every machine
	}
	return factors
}

// slowDown returns spec with passes that take longer by a factor.
func slowDown(spec replay.Spec, factor float64) replay.Spec {
	spec.Topology = spec.WithEngines(func(a *engineargs.Args) {
		if a.Speedup == 0 {
			a.Speedup = 1
		}
		a.Speedup /= factor
	})
	return spec
}

// holdStable makes a measure miss when the queue grew to the end, or when a higher load
// than the workload's leaves it too short to tell: what such a run shows is not what a
// longer one would.
func holdStable(m *plan.Measure, result *harness.Result, spec *replay.Spec, load float64) {
	if spec.Mode == loadgen.Concurrency {
		return
	}
	s := saturation.Of(result.Collector)
	m.Saturation = string(s.Verdict)
	short := s.Verdict == saturation.Unsettled && load > 1
	if s.Verdict != saturation.Overloaded && !short {
		return
	}
	m.Met = false
	reason := fmt.Sprintf("the queue grew to the end (mean wait %.0f ms in the first twelfth of the requests, %.0f ms in the last)", s.WaitFirst, s.WaitLast)
	if short {
		reason = s.TooShort()
	}
	if m.Missed != "" {
		m.Missed += "; "
	}
	m.Missed += reason
}
