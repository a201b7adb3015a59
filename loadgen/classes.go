package loadgen

import (
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/formula"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/sim"
)

// DefaultClass is the class of requests to which neither the trace nor a rule gives one.
const DefaultClass = "default"

// Class is a kind of requests that are reported apart, and what they are to the cluster.
type Class struct {
	Name string `yaml:"class" is:"class"`
	// When is the condition under which a request is of the class; "": the trace says so.
	When string `yaml:"when" is:"condition"`
	// Priority takes the place of the trace's where Ranked is set; the least is the most urgent.
	Priority int32 `yaml:"priority" is:"priority"`
	Ranked   bool
	Deadline sim.Time `yaml:"deadline" is:"deadline"` // from arrival to the first token, > 0; 0: none
	Weight   float64  `yaml:"weight" is:"1e-6..1e6"`  // share of the service relative to other classes, > 0; 0: 1
}

// ClassOf returns the place in w.Classes of a turn's class, 0 where there are no classes.
func (w *Workload) ClassOf(turn int32) int32 {
	if w.ClassesOf == nil {
		return 0
	}
	return w.ClassesOf[turn]
}

// CheckClassName refuses names that reports and objectives could not be read with.
func CheckClassName(name string) error {
	good := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
	}
	bad := slices.ContainsFunc([]rune(name), func(r rune) bool { return !good(r) })
	if name == "" || len(name) > 64 || bad {
		return excerpt.Errorf("class is %q, want 1 to 64 letters, digits, '-', '_' and '.'", name)
	}
	return nil
}

// AddClass returns the place of a class in w.Classes, which it enters if it is new.
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

// Classify gives each turn of a workload that nobody uses yet its class by rules: the one
// that the trace says, if a rule names it, or else that of the first condition that is true,
// or else the trace's.
func (w *Workload) Classify(rules []Class) error {
	given := append([]string(nil), w.Classes...)
	places := make([]int32, len(rules)) // of the rules' classes
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
	if w.ClassesOf == nil {
		w.ClassesOf = make([]int32, len(w.Turns))
	}
	conditions, err := w.judgeConditions(rules)
	if err != nil {
		return err
	}
	ranked := slices.ContainsFunc(rules, func(c Class) bool { return c.Ranked })
	if ranked && w.Priorities == nil {
		w.Priorities = make([]int32, len(w.Turns))
	}
	for turn := range w.Turns {
		rule := slices.Index(places, w.ClassesOf[turn])
		for i := 0; rule < 0 && i < len(rules); i++ {
			if column := conditions[i]; len(column) > 0 && column[min(turn, len(column)-1)] != 0 {
				rule = i
			}
		}
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

// judgeConditions returns for each rule where its condition is true: for each turn, or for all
// of them at once; nothing for rules without one.
func (w *Workload) judgeConditions(rules []Class) ([][]float64, error) {
	language := classLanguage()
	p := language.NewProgram()
	values := make([]formula.Value, len(rules))
	for i := range rules {
		if rules[i].When == "" {
			continue
		}
		v, err := p.Add(rules[i].When, formula.Bool)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	p.Begin(len(w.Turns))
	facts := classFacts()
	for i := range p.Inputs() {
		to, fact := p.Input(i), facts[p.NameOf(i)]
		for turn := range to {
			to[turn] = fact.of(w, language, int32(turn))
		}
	}
	p.Run()
	columns := make([][]float64, len(rules))
	for i := range rules {
		if rules[i].When != "" {
			columns[i] = p.Column(values[i])
		}
	}
	return columns, nil
}

// classFact is something that the condition of a class may look at.
type classFact struct {
	formula.Name
	of func(w *Workload, l *formula.Language, turn int32) float64
}

func classFacts() []classFact {
	number := func(name string, of func(w *Workload, turn int32) float64) classFact {
		return classFact{formula.Name{Name: "request." + name, Kind: formula.Integer, Each: true}, func(w *Workload, _ *formula.Language, turn int32) float64 { return of(w, turn) }}
	}
	return []classFact{
		number("input_tokens", func(w *Workload, turn int32) float64 { return float64(w.Turns[turn].Input) }),
		number("output_tokens", func(w *Workload, turn int32) float64 { return float64(w.Turns[turn].Output) }),
		number("turn", func(w *Workload, turn int32) float64 { return float64(w.Turns[turn].Index) }),
		number("turns", func(w *Workload, turn int32) float64 { return float64(w.Sessions[w.Turns[turn].Session].Turns) }),
		number("session", func(w *Workload, turn int32) float64 { return float64(w.Turns[turn].Session) }),
		number("priority", func(w *Workload, turn int32) float64 { return float64(w.PriorityOf(turn)) }),
		number("prefix", func(w *Workload, turn int32) float64 {
			if ids := w.Turns[turn].IDs; len(ids) > 0 {
				return float64(ids[0])
			}
			return -1
		}),
		{formula.Name{Name: "request.session_id", Kind: formula.Text, Each: true}, func(w *Workload, l *formula.Language, turn int32) float64 {
			return l.NumberOf(w.SessionID(int(w.Turns[turn].Session)))
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

// CheckCondition refuses a condition that cannot be evaluated, with a *formula.Error.
func CheckCondition(text string) error {
	if _, err := classLanguage().NewProgram().Add(text, formula.Bool); err != nil {
		return err
	}
	return nil
}
