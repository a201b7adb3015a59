package calibrate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/replay-llm/replay/scheduler/timing"
)

// Form is a choice of the parameters that are fitted, the others are 0, and of
// how sharply the larger of reading and multiplying weights rules.
type Form struct {
	Name   string
	Knee   int
	Fields []Field
	with   []string // names of what was added
}

// Field is one parameter of a form.
type Field struct {
	Name string
	at   func(*timing.Parameters) *float64
}

// tokenField is the place of token_s in all forms.
const tokenField = 1

// plainForms returns the shapes that are tried for a run. Which knee a server
// has depends on how well its GPU does both at once, and the run shows it.
func plainForms() []Form {
	fields := []Field{
		{"weights_s", func(p *timing.Parameters) *float64 { return &p.Weights }},
		{"token_s", func(p *timing.Parameters) *float64 { return &p.Token }},
		{"context_s", func(p *timing.Parameters) *float64 { return &p.Context }},
		{"mixed_context_s", func(p *timing.Parameters) *float64 { return &p.Mixed }},
	}
	var all []Form
	for _, knee := range []int{1, 2, 4} {
		all = append(all, Form{formName(knee, len(fields), nil), knee, fields, nil})
	}
	return all
}

// extensions returns the form with one more parameter: attention inside
// prompts, which long prompts show, or what a pass with prompts takes more in
// any case.
func (f Form) extensions() []Form {
	var all []Form
	for _, more := range []struct {
		name  string
		field Field
	}{
		{"pair", Field{"pair_s", func(p *timing.Parameters) *float64 { return &p.Pair }}},
		{"mixed", Field{"mixed_base_s", func(p *timing.Parameters) *float64 { return &p.MixedBase }}},
	} {
		if slices.ContainsFunc(f.Fields, func(has Field) bool { return has.Name == more.field.Name }) {
			continue
		}
		fields := append(slices.Clone(f.Fields), more.field)
		with := append(slices.Clone(f.with), more.name)
		all = append(all, Form{formName(f.Knee, len(fields), with), f.Knee, fields, with})
	}
	return all
}

// formName returns the name of a form, which tells it from the others.
func formName(knee, parameters int, with []string) string {
	return fmt.Sprintf("roofline%d-%sknee%d", parameters, strings.Join(append(with, ""), "-"), knee)
}

// parametersAt returns the start with the form's parameters multiplied by e^u.
func (f *Form) parametersAt(start *timing.Parameters, u []float64) timing.Parameters {
	p := timing.Parameters{Graphs: start.Graphs, Knee: f.Knee}
	from := *start
	for i, x := range f.Fields {
		*x.at(&p) = *x.at(&from) * math.Exp(u[i])
	}
	return p
}

// startParameters returns where a search begins: what follows from data sheets of
// the server, or of a common one when it is not known. The scale is found by
// simulation.
func startParameters(s *Settings) timing.Parameters {
	gpu, err := timing.FindGPU(s.GPU)
	if err != nil {
		gpu, _ = timing.FindGPU("h100")
	}
	llm, err := timing.FindLLM(s.Model)
	if err != nil {
		llm, _ = timing.FindLLM("llama-3.1-8b")
	}
	p := timing.Roofline(gpu, llm, max(s.TensorParallel, 1)).Parameters
	p.Graphs = s.Graphs
	p.MixedBase = 0.1 * p.Weights
	return p
}
