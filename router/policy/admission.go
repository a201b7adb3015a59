package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/formula"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// Admission decides which requests are routed, held back or turned away: by the first rule that is true. If none is true, the
// request is routed.
type Admission struct {
	Name  string          `yaml:"name" is:"name"`
	Rules []AdmissionRule `yaml:"rules" list:"rules, as - shed: min(requests) > 32" each:"rule"`
	// Strict lets a request wait while one of a more urgent priority does, whatever the rules decide for it.
	Strict bool `yaml:"strict" json:",omitempty" record:"omitzero"`
}

// AdmissionRule decides on the requests for which When is true, an expression that has one value
// for all workers.
type AdmissionRule struct {
	Decision router.Decision
	When     string
}

// admission is an Admission at work.
type admission struct {
	Admission
	sight
	program textProgram
	values  []formula.Value
	needs   router.Needs
}

// NewAdmission returns the decisions of an Admission.
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

// CheckRule is CheckFilter for AdmissionRule.When.
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

// FollowsCaches reports whether a reads what workers have cached.
func (a *Admission) FollowsCaches() bool { return slices.Contains(a.LooksAt(), cachedBlocks) }

// LooksAt returns the names that a reads.
func (a *Admission) LooksAt() []string {
	p := textLanguage().NewProgram()
	for _, rule := range a.Rules {
		_, _ = p.Add(rule.When, formula.Bool) // errors are reported elsewhere
	}
	return namesOf(p)
}

// String describes an admission in a line.
func (a *Admission) String() string { return a.Describe(router.Signals{}) }

// Describe is String, without a word on metrics if signals are described separately.
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
