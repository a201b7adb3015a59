package autoscale

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/internal/formula"
	"github.com/replay-llm/replay/sim"
)

// Rules are expressions that set the number of workers.
type Rules struct {
	Want         string   `json:",omitempty" yaml:"want" is:"number" of:"rules"` // number of workers
	Up           string   `json:",omitempty" yaml:"up" is:"bool" of:"rules"`     // condition for adding workers
	Down         string   `json:",omitempty" yaml:"down" is:"bool" of:"rules"`   // condition for removing workers
	UpBy         int      `yaml:"up_by" is:"1..100000" of:"rules"`               // number of workers to add
	DownBy       int      `yaml:"down_by" is:"1..100000" of:"rules"`             // number of workers to remove
	UpCooldown   sim.Time `yaml:"up_cooldown" of:"rules"`                        // minimum time between adding workers and the previous act
	DownCooldown sim.Time `yaml:"down_cooldown" of:"rules"`                      // minimum time between removing workers and the previous act
}

// rules scales by expressions (docs/autoscaling.md, Rules).
type rules struct {
	c *Config
	reason
	program        *formula.Program
	want, up, down formula.Value
	acted          sim.Time // time of the latest act
}

func newRules(c *Config) *rules {
	x := &rules{c: c, program: ruleLanguage().NewProgram(), acted: sim.Time(math.Inf(-1))}
	for _, e := range c.Rules.expressions(&x.want, &x.up, &x.down) {
		if e.text != "" {
			*e.to, _ = x.program.Add(e.text, e.kind) // cannot fail after Check
		}
	}
	return x
}

// expression is an expression of Rules.
type expression struct {
	name, text string
	kind       formula.Kind
	to         *formula.Value
}

func (r *Rules) expressions(want, up, down *formula.Value) []expression {
	return []expression{{"want", r.Want, formula.Number, want}, {"up", r.Up, formula.Bool, up}, {"down", r.Down, formula.Bool, down}}
}

// Want returns the number of workers.
func (x *rules) Want(s *Signals) int {
	if s.At == 0 {
		x.why = "nothing has been read"
		return s.Workers
	}
	n, r := s.Workers, x.c.Rules
	x.evaluate(s)
	switch {
	case r.Want != "":
		want := x.program.Column(x.want)[0]
		if math.IsNaN(want) {
			x.why = "want is not a number"
			return n
		}
		n, x.why = roundUp(max(want, 0)), fmt.Sprintf("want is %.4g", want)
	case r.Up != "" && x.program.Column(x.up)[0] != 0:
		n, x.why = n+r.UpBy, "up is true"
	case r.Down != "" && x.program.Column(x.down)[0] != 0:
		n, x.why = n-r.DownBy, "down is true"
	default:
		x.why = "neither up nor down is true"
	}
	n = min(max(n, x.c.Min), x.c.Max)
	switch since := s.Now - x.acted; {
	case n > s.Workers && since < r.UpCooldown, n < s.Workers && since < r.DownCooldown:
		x.why += fmt.Sprintf("; the last act is %gs ago", float64(since)/1000)
		return s.Workers
	case n != s.Workers:
		x.acted = s.Now
	}
	return n
}

// evaluate computes the expressions. Without a ready worker, the expressions read an idle worker.
func (x *rules) evaluate(s *Signals) {
	facts := ruleFacts()
	each := s.Each
	if len(each) == 0 {
		each = make([]Gauge, 1)
	}
	x.program.Begin(len(each))
	for i := range x.program.Inputs() {
		f, to := &facts[x.program.NameOf(i)], x.program.Input(i)
		if f.all != nil {
			to[0] = f.all(x.c, s)
			continue
		}
		for k := range each {
			to[k] = f.each(&each[k])
		}
	}
	x.program.Run()
}

// check returns an error for expressions that cannot be evaluated.
func (r *Rules) check() error {
	var v formula.Value
	switch {
	case r.Want == "" && r.Up == "" && r.Down == "":
		return fmt.Errorf("no rule, must be one, such as want: ceil(in_flight_total / 8), or up and down")
	case r.Want != "" && (r.Up != "" || r.Down != ""):
		return fmt.Errorf("the number of workers and up or down are mutually exclusive")
	case r.UpBy < 1 || r.DownBy < 1 || !isTime(r.UpCooldown, 0) || !isTime(r.DownCooldown, 0):
		return fmt.Errorf("up by %d and down by %d workers, must be at least 1, and cooldowns of at least 0 ms", r.UpBy, r.DownBy)
	}
	for _, e := range r.expressions(&v, &v, &v) {
		if e.text == "" {
			continue
		}
		if err := CheckRule(e.text, e.kind == formula.Bool); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

// CheckRule returns the error in an expression with a boolean or numeric value. The error is nil or a *formula.Error.
func CheckRule(text string, bool bool) error {
	kind := formula.Number
	if bool {
		kind = formula.Bool
	}
	p := ruleLanguage().NewProgram()
	v, err := p.Add(text, kind)
	switch {
	case err != nil:
		return err
	case v.Each():
		return &formula.Error{Line: 1, Text: "it has a value for each worker, must have one for all, as any(waiting > 4) or sum(waiting)"}
	}
	return nil
}

// facts returns the indexes of the facts that rules read.
func (r *Rules) facts() []int {
	var v formula.Value
	p := ruleLanguage().NewProgram()
	for _, e := range r.expressions(&v, &v, &v) {
		if e.text != "" {
			_, _ = p.Add(e.text, e.kind)
		}
	}
	var all []int
	for i := range p.Inputs() {
		all = append(all, p.NameOf(i))
	}
	return all
}
