package calibrate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/replay-llm/replay/scheduler/timing"
)

// Form is a choice of the parameters to fit, together with a knee. A larger knee means a sharper maximum of the times
// for reading and for multiplying weights. All other parameters are 0.
type Form struct {
	Name   string
	Knee   int
	Fields []string // parameters by their names in a profile
	with   []string // names of the additional parameters
	keeps  bool     // other parameters keep their start values instead of 0
}

// parameterOf returns a pointer to a parameter that can be fitted, nil for another name.
func parameterOf(p *timing.Parameters, name string) *float64 {
	return map[string]*float64{
		denseField: &p.Weights, "token_s": &p.Token, "context_s": &p.Context, "mixed_context_s": &p.Mixed,
		"pair_s": &p.Pair, promptsField: &p.MixedBase, expertsField: &p.Experts, passField: &p.Base, shareField: &p.ExpertShare,
		piecewiseField: &p.PiecewiseBase, eagerField: &p.EagerBase,
	}[name]
}

// denseField names the weights that all passes read, and expertsField the weights of experts.
const (
	denseField   = "weights_s"
	expertsField = "experts_s"
)

// isFree reports whether only the runs determine a parameter. Only the runs determine a time between client and
// server, or a time that data sheets do not have.
func (f *Form) isFree(name string) bool {
	return isOfFrontEnd(name) || f.keeps && (name == passField || name == promptsField)
}

// scaleParameter multiplies a parameter of the form by factor. If the form does not fit the experts, the experts are
// multiplied together with the other weights.
func (f *Form) scaleParameter(p *timing.Parameters, name string, factor float64) {
	*parameterOf(p, name) *= factor
	if name == shareField { // a single token still reads the same experts
		p.Experts /= factor
	}
	if name == denseField && !slices.Contains(f.Fields, expertsField) {
		p.Experts *= factor
	}
}

// tokenField is the index of token_s in the fields of all forms.
const tokenField = 1

// plainForms returns the forms to try for a run. The knee depends on how well the GPU reads and multiplies at the
// same time, and only the run shows how well.
func plainForms() []Form {
	var all []Form
	for _, knee := range []int{1, 2, 4} {
		all = append(all, newForm(knee, []string{denseField, "token_s", "context_s", "mixed_context_s"}, nil))
	}
	return all
}

// extensions returns forms with one more parameter. The parameter is the attention inside prompts, the fixed time of
// passes with prompts, the experts apart from other weights, or the launch of passes without a graph. With a knee of
// 1, the weights already include every constant part of a pass.
func (f Form) extensions(start *timing.Parameters) []Form {
	var all []Form
	for _, more := range []struct{ name, field string }{{"pair", "pair_s"}, {"mixed", "mixed_base_s"}, {"experts", expertsField}, {"piecewise", piecewiseField}, {"eager", eagerField}} {
		if !slices.Contains(f.Fields, more.field) && *parameterOf(start, more.field) > 0 && !(f.Knee == 1 && isConstant(more.field, start)) {
			all = append(all, newForm(f.Knee, append(slices.Clone(f.Fields), more.field), append(slices.Clone(f.with), more.name)))
		}
	}
	return all
}

// newForm returns a form with a unique name.
func newForm(knee int, fields, with []string) Form {
	name := fmt.Sprintf("roofline%d-%sknee%d", len(fields), strings.Join(append(with, ""), "-"), knee)
	return Form{Name: name, Knee: knee, Fields: fields, with: with}
}

// parametersAt returns the start with the form's parameters multiplied by e^u. If the form does not fit the experts,
// the experts keep their proportion to the other weights.
func (f *Form) parametersAt(start *timing.Parameters, u []float64) timing.Parameters {
	p := timing.Parameters{Graphs: start.Graphs, GraphMode: start.GraphMode, Knee: f.Knee, ExpertShare: start.ExpertShare}
	if f.keeps {
		p = *start
		p.Knee = f.Knee
	}
	for i, name := range f.Fields {
		if place := parameterOf(&p, name); place != nil { // other names are parameters of the way
			*place = *parameterOf(start, name) * math.Exp(u[i])
		}
	}
	if slices.Contains(f.Fields, shareField) {
		p.Experts *= start.ExpertShare / p.ExpertShare
	}
	if start.Experts > 0 && !slices.Contains(f.Fields, expertsField) {
		p.Experts = start.Experts * (p.Weights / start.Weights)
	}
	return p
}
