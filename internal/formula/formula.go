// Package formula evaluates expressions over columns of numbers: one value for each of several
// candidates, or one for all of them.
//
// The language is a part of that of github.com/expr-lang/expr, and errors of syntax have the library's words. Tokens are the library's; a parser
// for this part makes a tree of them. The tree is turned into steps over columns, which checks the kinds of values; each step is worked off for all
// candidates at once without allocating anything. The library's parser, checker and machine are the twins of the tests. The program has none of these: they
// look methods up by name, for which the linker keeps every exported method of a program.
//
// Every value is a float64: true is 1, false 0, and a text its number in the Language. min, max,
// sum, mean, count, any and all of a single argument read all candidates.
//
// Read formula.go, then tree.go, parse.go, names.go, lower.go and operations.go.
package formula

import "math"

// Kind is what a value is.
type Kind uint8

const (
	Number  Kind = iota
	Integer      // a number without a fraction
	Bool
	Text
)

func (k Kind) String() string {
	return [...]string{"a number", "a number", "true or false", "a text"}[k]
}

// Name is something that an expression may read.
type Name struct {
	Name string // two parts at most, apart by a dot: request.priority
	Kind Kind
	Each bool // each candidate has its own
	// Second makes it one of the second list of candidates, where there are two. An expression cannot
	// combine a value of each candidate of one list with a value of each of the other.
	Second bool
}

// Language is what expressions may read, and the numbers of texts.
type Language struct {
	names []Name
	texts map[string]float64
}

// NewLanguage returns a language of the given names.
func NewLanguage(names []Name) *Language {
	return &Language{names: names, texts: map[string]float64{}}
}

// NumberOf returns the number that stands for a text.
func (l *Language) NumberOf(text string) float64 {
	n, ok := l.texts[text]
	if !ok {
		n = float64(len(l.texts))
		l.texts[text] = n
	}
	return n
}

// Texts returns all texts that have a number, in the order of these.
func (l *Language) Texts() []string {
	all := make([]string, len(l.texts))
	for text, n := range l.texts {
		all[int(n)] = text
	}
	return all
}

// Error is a complaint about an expression.
type Error struct {
	Line int // of the expression, from 1 on
	Text string
}

func (e *Error) Error() string { return e.Text }

// Program evaluates the expressions added to it, all at once. What they have in common is
// worked out once.
type Program struct {
	language *Language
	inputs   []input
	steps    []step
	known    map[step]Value // by what is done, except its target
	constant map[int]float64

	registers int
	stride    int    // values that a register has room for, at least 1
	counts    [2]int // candidates, by list
	mixed     bool   // an expression puts values of both lists side by side
	buffer    []float64
	at        operands
}

// Value is where a value is found in a Program.
type Value struct {
	register int
	each     bool
	second   bool // of the second list of candidates
}

// Each reports whether each candidate has a separate value.
func (v Value) Each() bool { return v.each }

// step fills the register to.
type step struct {
	do      operation
	to      Value
	a, b, c Value
}

// NewProgram returns a program without expressions.
func (l *Language) NewProgram() *Program {
	return &Program{language: l, known: map[step]Value{}, constant: map[int]float64{}}
}

// input is a name that is read, by its place in the language.
type input struct {
	name  int
	value Value
}

// Inputs returns how many names are read.
func (p *Program) Inputs() int { return len(p.inputs) }

// NameOf returns the place in the language of the name that an input is.
func (p *Program) NameOf(input int) int { return p.inputs[input].name }

// Begin makes room for the values of that many candidates.
func (p *Program) Begin(candidates int) { p.BeginBoth(candidates, 0) }

// BeginBoth is Begin for two lists of candidates.
func (p *Program) BeginBoth(first, second int) {
	p.counts = [2]int{first, second}
	most := max(first, second)
	if p.stride >= most && p.buffer != nil {
		return
	}
	p.stride = max(most, 2*p.stride, 1)
	p.buffer = make([]float64, p.registers*p.stride)
	for register, x := range p.constant {
		p.buffer[register*p.stride] = x
	}
}

// Input returns the slice for the values of an input: one for each candidate, or a single one.
func (p *Program) Input(input int) []float64 { return p.column(p.inputs[input].value) }

// Column returns the values of v: one for each candidate, or a single one.
func (p *Program) Column(v Value) []float64 { return p.column(v) }

func (p *Program) column(v Value) []float64 {
	at := v.register * p.stride
	switch {
	case v.second:
		return p.buffer[at : at+p.counts[1]]
	case v.each:
		return p.buffer[at : at+p.counts[0]]
	}
	return p.buffer[at : at+1]
}

// Run evaluates everything, once the inputs are filled.
func (p *Program) Run() {
	o := &p.at
	for i := range p.steps {
		s := &p.steps[i]
		o.a, o.each.a = p.operand(s.a)
		o.b, o.each.b = p.operand(s.b)
		o.c, o.each.c = p.operand(s.c)
		applyStep(s.do, p.column(s.to), o)
	}
}

// operand returns the values of v, and with what the number of a candidate is masked to find
// its own.
func (p *Program) operand(v Value) (column []float64, mask int) {
	if v.each {
		mask = math.MaxInt
	}
	return p.column(v), mask
}
