package calibrate

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Form is a choice of the parameters that are fitted, the others are 0, and of
// how sharply the larger of reading and multiplying weights rules.
type Form struct {
	Name   string
	Knee   int
	Fields []string // parameters by their names in a profile
	with   []string // names of what was added
}

// parameterOf returns the place of a parameter that may be fitted.
func parameterOf(p *timing.Parameters, name string) *float64 {
	return map[string]*float64{
		"weights_s": &p.Weights, "token_s": &p.Token, "context_s": &p.Context, "mixed_context_s": &p.Mixed,
		"pair_s": &p.Pair, "mixed_base_s": &p.MixedBase,
	}[name]
}

// tokenField is the place of token_s in all forms.
const tokenField = 1

// plainForms returns the shapes that are tried for a run. Which knee a server
// has depends on how well its GPU does both at once, and the run shows it.
func plainForms() []Form {
	var all []Form
	for _, knee := range []int{1, 2, 4} {
		all = append(all, newForm(knee, []string{"weights_s", "token_s", "context_s", "mixed_context_s"}, nil))
	}
	return all
}

// extensions returns the form with one more parameter: attention inside
// prompts, which long prompts show, or what a pass with prompts takes more in
// any case.
func (f Form) extensions() []Form {
	var all []Form
	for _, more := range []struct{ name, field string }{{"pair", "pair_s"}, {"mixed", "mixed_base_s"}} {
		if !slices.Contains(f.Fields, more.field) {
			all = append(all, newForm(f.Knee, append(slices.Clone(f.Fields), more.field), append(slices.Clone(f.with), more.name)))
		}
	}
	return all
}

// newForm returns a form with a name that tells it from the others.
func newForm(knee int, fields, with []string) Form {
	name := fmt.Sprintf("roofline%d-%sknee%d", len(fields), strings.Join(append(with, ""), "-"), knee)
	return Form{name, knee, fields, with}
}

// parametersAt returns the start with the form's parameters multiplied by e^u.
func (f *Form) parametersAt(start *timing.Parameters, u []float64) timing.Parameters {
	p := timing.Parameters{Graphs: start.Graphs, Knee: f.Knee}
	for i, name := range f.Fields {
		if place := parameterOf(&p, name); place != nil { // or it is one of the way
			*place = *parameterOf(start, name) * math.Exp(u[i])
		}
	}
	return p
}

// startParameters returns where a search begins: what follows from data sheets of
// the server, or of a common one when it is not known. The scale is found by
// simulation.
func startParameters(s *Settings) timing.Parameters {
	gpu, err := hardware.FindGPU(s.GPU, nil)
	if err != nil {
		gpu, _ = hardware.FindGPU("h100", nil)
	}
	model, err := findModel(s.Model)
	if err != nil {
		model, _ = hardware.FindModel("llama-3.1-8b")
	}
	f := hardware.Fit{GPU: gpu, Model: model, TP: max(s.TensorParallel, 1), PP: 1, DP: 1}
	pass := f.Pass()
	return timing.Parameters{
		Weights: 1.1 * (pass.Weights + pass.Experts), Token: pass.Token, Pair: pass.Pair,
		Context: 0.8 * pass.Context, Mixed: 1.2 * pass.Context, MixedBase: 0.1 * pass.Weights, Graphs: s.Graphs,
	}
}

// findModel returns a model by its name or by the path that a server has loaded it from, which
// ends with its name.
func findModel(name string) (hardware.Model, error) {
	m, err := hardware.FindModel(name)
	if err != nil {
		if last, e := hardware.FindModel(path.Base(name)); e == nil {
			return last, nil
		}
	}
	return m, err
}
