package loadgen

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/formula"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/sim"
)

// DefaultClass is the class of requests without a class in the trace and without a matching rule.
const DefaultClass = "default"

// Class is a class of requests that reports describe separately. A class may set the priority, the deadline and the
// weight of its requests.
type Class struct {
	Name string `yaml:"class" is:"class"`
	// When is the condition for requests of the class. "" selects the requests that have this class in the trace.
	When string `yaml:"when" is:"condition"`
	// Priority replaces the priority in the trace if Ranked is true. The lowest value is the most urgent.
	Priority int32 `yaml:"priority" is:"priority"`
	Ranked   bool
	Deadline sim.Time `yaml:"deadline" is:"deadline"` // time from arrival to the first token, > 0; 0: none
	Weight   float64  `yaml:"weight" is:"1e-6..1e6"`  // share of the service, relative to other classes; 0: 1
}

// ClassOf returns the index of a turn's class in w.Classes. ClassOf returns 0 if there are no classes.
func (w *Workload) ClassOf(turn int32) int32 {
	if w.ClassesOf == nil {
		return 0
	}
	return w.ClassesOf[turn]
}

// CheckClassName returns an error for a name that is not supported in reports and objectives.
func CheckClassName(name string) error {
	good := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
	}
	bad := slices.ContainsFunc([]rune(name), func(r rune) bool { return !good(r) })
	if name == "" || len(name) > 64 || bad {
		return excerpt.Errorf("class is %q, must be 1 to 64 letters, digits, '-', '_' and '.'", name)
	}
	return nil
}

// AddClass returns the index of a class in w.Classes. AddClass adds the class if it is new.
func (w *Workload) AddClass(name string) int32 {
	if w.Classes == nil {
		w.Classes = []string{DefaultClass}
	}
	at := slices.Index(w.Classes, name)
	if at < 0 {
		at = len(w.Classes)
		w.Classes = append(w.Classes, name)
	}
	return int32(at)
}

// Classify sets the class of each turn by rules. A class in the trace is kept if a rule has its name. Otherwise the
// first rule with a true condition applies. Without such a rule, the class in the trace is kept.
//
// The workload must be unused.
func (w *Workload) Classify(rules []Class) error {
	given := append([]string(nil), w.Classes...)
	places := make([]int32, len(rules)) // class index by rule
	for i := range rules {
		places[i] = w.AddClass(rules[i].Name)
		if rules[i].When == "" && !slices.Contains(given, rules[i].Name) {
			return excerpt.Errorf("class %s has no condition, and no request of %s is said to be of it%s", rules[i].Name, w.Name, nearest.Ask(rules[i].Name, given))
		}
	}
	w.Rules = make([]Class, len(w.Classes))
	for i, place := range places {
		w.Rules[place] = rules[i]
	}
	j, err := newJudge(rules, places)
	if err != nil {
		return err
	}
	if w.Source != nil {
		w.judge = j
		return nil
	}
	if w.ClassesOf == nil {
		w.ClassesOf = make([]int32, len(w.Turns))
	}
	ranked := slices.ContainsFunc(rules, func(c Class) bool { return c.Ranked })
	if ranked && w.Priorities == nil {
		w.Priorities = make([]int32, len(w.Turns))
	}
	j.begin(len(w.Turns), func(i int, to *classed) { to.setTurn(w, int32(i)) })
	for turn := range w.Turns {
		rule := j.ruleOf(turn, w.ClassesOf[turn])
		if rule < 0 {
			continue
		}
		w.ClassesOf[turn] = places[rule]
		if rules[rule].Ranked {
			w.Priorities[turn] = rules[rule].Priority
		}
	}
	return nil
}

// judge finds the rule that applies to a request.
type judge struct {
	rules    []Class
	places   []int32 // class index by rule
	language *formula.Language
	program  *formula.Program
	values   []formula.Value // values of the conditions, by rule
	facts    []classFact     // inputs of the conditions
}

func newJudge(rules []Class, places []int32) (*judge, error) {
	language := classLanguage()
	j := &judge{rules: rules, places: places, language: language, program: language.NewProgram(), values: make([]formula.Value, len(rules))}
	for i := range rules {
		if rules[i].When == "" {
			continue
		}
		v, err := j.program.Add(rules[i].When, formula.Bool)
		if err != nil {
			return nil, err
		}
		j.values[i] = v
	}
	facts := classFacts()
	for i := range j.program.Inputs() {
		j.facts = append(j.facts, facts[j.program.NameOf(i)])
	}
	return j, nil
}

// begin evaluates the conditions for n requests.
func (j *judge) begin(n int, set func(i int, to *classed)) {
	p := j.program
	p.Begin(n)
	var c classed
	for k := 0; k < n && len(j.facts) > 0; k++ {
		set(k, &c)
		for i := range j.facts {
			p.Input(i)[k] = j.facts[i].of(&c, j.language)
		}
	}
	p.Run()
}

// ruleOf returns the index of the rule for the i-th request of begin, or -1. class is the class in the trace.
func (j *judge) ruleOf(i int, class int32) int {
	rule := slices.Index(j.places, class)
	for k := 0; rule < 0 && k < len(j.rules); k++ {
		if j.rules[k].When == "" {
			continue
		}
		if column := j.program.Column(j.values[k]); len(column) > 0 && column[min(i, len(column)-1)] != 0 {
			rule = k
		}
	}
	return rule
}

// judgeOne returns the index of the rule for one request, or -1.
func (j *judge) judgeOne(c *classed) int {
	j.begin(1, func(_ int, to *classed) { *to = *c })
	return j.ruleOf(0, c.in.Class)
}

// classed has the properties of a request that conditions can read.
type classed struct {
	w  *Workload
	in Incoming
}

// setTurn sets c to the properties of a turn.
func (c *classed) setTurn(w *Workload, turn int32) {
	t := &w.Turns[turn]
	*c = classed{w, Incoming{
		IDs: t.IDs, Input: t.Input, Output: t.Output, Line: t.Line, Priority: w.PriorityOf(turn), Session: t.Session, Turn: t.Index, Turns: w.Sessions[t.Session].Turns,
	}}
}

// sessionID returns the name of the session.
func (c *classed) sessionID() string {
	if c.w.Source == nil {
		return c.w.SessionID(int(c.in.Session))
	}
	id, _ := c.w.Source.SessionID(c.in.Session, c.in.Line) // if this fails, reading the row fails too and ends the replay
	return id
}

// classFact is a property of requests that a condition can read.
type classFact struct {
	formula.Name
	of func(c *classed, l *formula.Language) float64
}

func classFacts() []classFact {
	number := func(name string, of func(in *Incoming) float64) classFact {
		return classFact{formula.Name{Name: "request." + name, Kind: formula.Integer, Each: true}, func(c *classed, _ *formula.Language) float64 { return of(&c.in) }}
	}
	return []classFact{
		number("input_tokens", func(in *Incoming) float64 { return float64(in.Input) }),
		number("output_tokens", func(in *Incoming) float64 { return float64(in.Output) }),
		number("turn", func(in *Incoming) float64 { return float64(in.Turn) }),
		number("turns", func(in *Incoming) float64 { return float64(in.Turns) }),
		number("session", func(in *Incoming) float64 { return float64(in.Session) }),
		number("priority", func(in *Incoming) float64 { return float64(in.Priority) }),
		{formula.Name{Name: "request.prefix", Kind: formula.Integer, Each: true}, func(c *classed, _ *formula.Language) float64 {
			if ids := c.in.IDs; len(ids) > 0 && !(c.w.Renumbered && ids[0] > math.MaxInt64) { // a Source generates larger ids
				return float64(ids[0])
			}
			return -1
		}},
		{formula.Name{Name: "request.session_id", Kind: formula.Text, Each: true}, func(c *classed, l *formula.Language) float64 {
			return l.NumberOf(c.sessionID())
		}},
	}
}

func classLanguage() *formula.Language {
	var names []formula.Name
	for _, f := range classFacts() {
		names = append(names, f.Name)
	}
	return formula.NewLanguage(names)
}

// CheckCondition returns a *formula.Error for an invalid condition.
func CheckCondition(text string) error {
	if _, err := classLanguage().NewProgram().Add(text, formula.Bool); err != nil {
		return err
	}
	return nil
}
