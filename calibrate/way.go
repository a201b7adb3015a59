package calibrate

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
)

// The constants are the parameters of a way, and their start values in s.
const (
	frontEndFirst, frontEndFirstStart = "front_end_first_s", 10e-3
	frontEndToken, frontEndTokenStart = "front_end_token_s", 0.1e-3
)

// isOfFrontEnd reports whether a parameter belongs to the way.
func isOfFrontEnd(name string) bool { return name == frontEndFirst || name == frontEndToken }

// plainForms returns the forms to try for the runs. If a client measured the times, a form has a way and all
// parameters of a pass. Parameters that the runs do not determine are drawn to the data sheet, not to 0.
func (s *search) plainForms() []Form {
	all := plainForms()
	for i := range all {
		if s.client {
			all[i] = newForm(all[i].Knee, append(all[i].Fields, "pair_s", "mixed_base_s", frontEndFirst), []string{"pair", "mixed", "way"})
		}
	}
	return all
}

// extensionsOf returns the forms with one more parameter.
func (s *search) extensionsOf(f *Form) []Form {
	all := f.extensions(&s.start)
	if !s.separatesLaunches() {
		all = slices.DeleteFunc(all, func(f Form) bool {
			last := f.Fields[len(f.Fields)-1]
			return last == piecewiseField || last == eagerField
		})
	}
	if s.client && !slices.Contains(f.Fields, frontEndToken) {
		all = append(all, newForm(f.Knee, append(slices.Clone(f.Fields), frontEndToken), append(slices.Clone(f.with), "token")))
	}
	return all
}

// frontEndAt returns the way at u.
func (f *Form) frontEndAt(u []float64) (w timing.Way) {
	for i, name := range f.Fields {
		switch name {
		case frontEndFirst:
			w.First = frontEndFirstStart * math.Exp(u[i])
		case frontEndToken:
			w.Token = frontEndTokenStart * math.Exp(u[i])
		}
	}
	return w
}

// partOfWay returns the addition of a way to metric k of a request with this number of output tokens.
func partOfWay(w *timing.Way, k, output int) float64 {
	switch k {
	case 0:
		return w.First
	case 1:
		return w.Token
	}
	return w.First + w.Token*float64(output-1)
}

// addWay adds the derivatives of metric k of a request by the logarithms of the way's parameters.
func (f *Form) addWay(row []float64, w *timing.Way, k, output int) {
	for i, name := range f.Fields {
		switch name {
		case frontEndFirst:
			row[i] += partOfWay(&timing.Way{First: w.First}, k, output)
		case frontEndToken:
			row[i] += partOfWay(&timing.Way{Token: w.Token}, k, output)
		}
	}
}

// measureSpread sets the spreads of a way. The spreads are half the width of the central 68 % of the differences
// between the requests of runs and of the replay.
func measureSpread(w *timing.Way, trials []*trial) {
	var by [2][]float64
	for _, t := range trials {
		for k := range by {
			for j, simulated := range t.target.simulated(k, &t.out) {
				by[k] = append(by[k], t.target.measured[k][j]-simulated)
			}
		}
	}
	half := func(v []float64) float64 {
		return (measured.QuantileOf(v, 0.8413) - measured.QuantileOf(v, 0.1587)) / 2
	}
	w.FirstSpread, w.TokenSpread = half(by[0]), half(by[1])
}

// floorParameters returns the lower limits of a pass's parameters by the data sheet of the GPU. The limits are 0 if
// the GPU is unknown.
func floorParameters(s *measured.Settings) timing.Parameters {
	gpu, err := hardware.FindGPU(s.GPU, nil)
	if err != nil || s.Quantized {
		return timing.Parameters{}
	}
	model, err := measured.FindModel(s.Model)
	if err != nil {
		return timing.Parameters{}
	}
	f := s.FitOf(gpu, model)
	pass := f.Fastest()
	return timing.Parameters{Weights: overClock * pass.Weights, Experts: overClock * pass.Experts, ExpertShare: s.ExpertShare(pass.Share), Token: overClock * pass.Token}
}

// overClock is the least share of a data sheet's time that a pass can take. Higher clocks than in the sheet, or
// caches, make this possible.
const overClock = 0.9

// isBelow reports whether p is faster than floor allows.
func isBelow(p, floor *timing.Parameters) bool {
	return p.Weights < floor.Weights || p.Experts*p.ExpertShare < floor.Experts*floor.ExpertShare || p.Token < floor.Token
}

// raiseToFloor raises parameters that are below their physical limits to these limits.
func (s *search) raiseToFloor(u []float64) {
	p := s.form.parametersAt(&s.start, u)
	for i, name := range s.form.Fields {
		if isOfFrontEnd(name) {
			continue
		}
		if least := *parameterOf(&s.floor, name); *parameterOf(&p, name) < least {
			u[i] = math.Log(1.01 * least / *parameterOf(&s.start, name))
		}
	}
}
