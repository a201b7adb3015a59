package plans

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/internal/accuracy"
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

// Default errors of pass times if no published server of the kind was measured: half of the range that contains nine
// of ten servers.
const (
	dataSheetError = 0.15 // by data sheets, of what was measured: the largest was 12 %
	unknownError   = 0.5  // by data sheets, of other models: experts on four GPUs were -38 to -19 % off
	fittedError    = 0.1  // by a fitted profile, at other loads: -7 to +13 %; on held-out requests of the same run 1 %
)

// Standard deviations within which nine and eight tenths of a normal distribution lie.
const (
	nineTenths  = 1.6448536269514722
	eightTenths = 1.2815515655446004
)

// passError is the distribution of the factor between passes of real servers and of the model: Centre is its median,
// and nine of ten servers are between Low and High. The zero value is an exact model.
type passError struct {
	centre, low, high float64
	// fast is the factor of the fastest measured server relative to the model, of nine of ten servers. No resample
	// has faster passes. 0: no server was measured.
	fast    float64
	servers int // that were measured; 0: the range is symmetric around 1
}

// notFaster bounds an error, so that no resample has faster passes than the fastest measured server relative to the
// model.
func (e passError) notFaster(off float64) passError {
	e.fast = 1 / (1 + off/100)
	return e
}

// errorWithin returns an error of up to a share.
func errorWithin(share float64) passError {
	if share == 0 {
		return passError{}
	}
	return passError{centre: 1, low: 1 / (1 + share), high: 1 + share}
}

// errorInBand returns the error of the servers of a band. A simulated time that is off by a share is wrong by the
// factor of 1 plus this share. The 10th and the 90th percentile enclose eight tenths. errorInBand widens these
// percentiles to nine tenths on either side of the median.
func errorInBand(b *accuracy.Band) passError {
	centre := 1 / (1 + b.Median/100)
	end := func(off float64) float64 {
		return centre * math.Pow(1/(1+off/100)/centre, nineTenths/eightTenths)
	}
	return passError{centre: centre, low: end(b.High), high: end(b.Low), servers: b.Rows}.notFaster(b.High)
}

// lowest returns the factor of the fastest passes of nine of ten resamples.
func (e passError) lowest() float64 { return max(e.low, e.fast) }

// isGiven reports whether resamples differ in pass times.
func (e passError) isGiven() bool { return e.centre > 0 }

// measureSpread returns the width of the range.
func (e passError) measureSpread() float64 {
	if !e.isGiven() {
		return 0
	}
	return math.Log(e.high / e.low)
}

// most returns the relative differences of pass times at the ends of the range.
func (e passError) most() float64 {
	if !e.isGiven() {
		return 0
	}
	return roundFactor(max(e.high, 1/e.lowest()) - 1)
}

// roundFactor returns a factor with the digits that are the same on every machine.
func roundFactor(x float64) float64 { return math.Round(1e4*x) / 1e4 }

// formatFactor returns a factor as text.
func formatFactor(factor float64) string { return fmt.Sprintf("%+.0f", math.Round(100*(factor-1))+0) }

// String returns the range, as ±15% or +2 to +19%.
func (e passError) String() string {
	if e.servers == 0 && e.fast <= e.low {
		return fmt.Sprintf("±%g%%", 100*e.most())
	}
	return fmt.Sprintf("%s to %s%%", formatFactor(e.lowest()), formatFactor(e.high))
}

// key returns all parts of the error, for the key of a journal.
func (e passError) key() string {
	if e.servers == 0 && e.fast <= e.low {
		return fmt.Sprint(e.most())
	}
	return fmt.Sprintf("%g to %g around %g", roundFactor(e.lowest()), roundFactor(e.high), roundFactor(e.centre))
}

// modelErrorOf returns the error of a replay's pass times. With several kinds of workers it returns the error with
// the widest range.
func (f *planFlags) modelErrorOf(spec *replay.Spec) passError {
	if f.modelError >= 0 {
		return errorWithin(f.modelError)
	}
	var widest passError
	for _, k := range spec.Entry().Kinds() {
		if e := errorOf(&k.Engine); e.measureSpread() > widest.measureSpread() {
			widest = e
		}
	}
	return widest
}

// errorOf returns the default error of an engine's pass times.
func errorOf(a *engineargs.Args) passError {
	if b, ok := engines.BandOf(a); ok {
		return errorInBand(&b)
	}
	switch form := a.PassTimes.Form(); {
	case form == timing.DataSheets && engines.DataSheetsMeasured(a):
		return errorBySheets(a, dataSheetError)
	case form == timing.DataSheets, form == timing.Operators:
		return errorBySheets(a, unknownError)
	case form == timing.File:
		return errorWithin(fittedError)
	default:
		return passError{} // no real server has the pass times of the built-in model
	}
}

// errorBySheets returns the error of pass times by data sheets.
func errorBySheets(a *engineargs.Args, share float64) passError {
	e := errorWithin(share)
	if s := engines.SheetErrors(a); s.Rows > 0 {
		return e.notFaster(s.Most)
	}
	return e
}

// passFactors returns the factor of passes in each resample. The factors are the medians of equally likely parts of a
// log-normal distribution around the centre, in an order drawn with seed. Nine tenths of the distribution are within
// the error. The widths of the error below and above the centre differ.
func passFactors(n int, e passError, seed uint64) []float64 {
	factors := make([]float64, n)
	for i, place := range sim.NewRand(seed, "model error").Perm(n) {
		factors[i] = 1
		if !e.isGiven() {
			continue
		}
		z := math.Sqrt2 * math.Erfinv(2*(float64(place)+0.5)/float64(n)-1)
		width := math.Log(e.high / e.centre)
		if z < 0 {
			width = math.Log(e.centre / e.low)
		}
		factors[i] = roundFactor(max(e.centre*math.Exp(width*z/nineTenths), e.fast))
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

// holdStable makes a measure miss if the queue grows to the end, or if the workload is too short for a verdict at a
// higher load than its own.
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
