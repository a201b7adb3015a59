package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/formula"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// Admission decides which requests are routed, held or shed. The first of its rules that is true decides. If no rule
// is true, the request is routed.
type Admission struct {
	Name  string          `yaml:"name" is:"name"`
	Rules []AdmissionRule `yaml:"rules" list:"rules, as - shed: min(requests) > 32" each:"rule"`
	// Strict holds a request while a request with a more urgent priority is held, regardless of the rules.
	Strict bool `yaml:"strict" json:",omitempty" record:"omitzero"`
}

// AdmissionRule is the decision on requests for which When is true. When is an expression with a single value for all
// workers.
type AdmissionRule struct {
	Decision router.Decision
	When     string
}

// admission is the router.Admission of an Admission.
type admission struct {
	Admission
	sight
	program textProgram
	values  []formula.Value
	needs   router.Needs
}

// NewAdmission returns the router.Admission of a.
func NewAdmission(a Admission, o Options) (router.Admission, error) {
	x := &admission{Admission: a, sight: makeSight(o), values: make([]formula.Value, len(a.Rules))}
	x.program.Program = x.language.NewProgram()
	for i, rule := range a.Rules {
		if err := x.program.add(rule.When, formula.Bool, &x.values[i]); err != nil {
			return nil, err
		}
	}
	x.program.findFacts(&x.needs, o.work())
	x.needs.Strict = a.Strict
	if err := x.checkClasses(a.LooksAt()); err != nil {
		return nil, err
	}
	return x, nil
}

func (a *admission) Needs() router.Needs { return a.needs }

func (a *admission) Decide(q *sim.Request, c *router.Candidates) router.Decision {
	a.request, a.candidates, a.workers = q, c, c.Workers
	a.program.run(&a.sight)
	for i, v := range a.values {
		if a.program.Column(v)[0] != 0 {
			return a.Rules[i].Decision
		}
	}
	return router.Accept
}

// CheckRule returns the error in an expression for AdmissionRule.When, nil if there is none.
func CheckRule(expression string) error {
	p := textLanguage().NewProgram()
	v, err := p.Add(expression, formula.Bool)
	switch {
	case err != nil:
		return err
	case v.Each():
		return &formula.Error{Line: 1, Text: expression + " differs between workers, expected one value for all, as any(...), all(...) or with min(...)"}
	}
	for _, name := range namesOf(p) {
		if name == sentBlocks {
			return &formula.Error{Line: 1, Text: name + " is known to router policies alone"}
		}
	}
	return nil
}

// FollowsCaches reports whether a reads the cached blocks of workers.
func (a *Admission) FollowsCaches() bool { return slices.Contains(a.LooksAt(), cachedBlocks) }

// LooksAt returns the names of the facts that a reads.
func (a *Admission) LooksAt() []string {
	p := textLanguage().NewProgram()
	for _, rule := range a.Rules {
		_, _ = p.Add(rule.When, formula.Bool) // NewAdmission reports errors
	}
	return namesOf(p)
}

// String returns a description of an admission in one line.
func (a *Admission) String() string { return a.Describe(router.Signals{}) }

// Describe returns the description of String. Describe omits the interval of metrics if signals are described
// separately.
func (a *Admission) Describe(signals router.Signals) string {
	var parts []string
	for _, rule := range a.Rules {
		parts = append(parts, fmt.Sprintf("%v where %s", rule.Decision, strings.Join(strings.Fields(rule.When), " ")))
	}
	if a.Strict {
		parts = append(parts, "strictly by priority")
	}
	return a.Name + ": " + strings.Join(parts, ", ") + describeSight(a.LooksAt(), signals)
}
