// Package formula evaluates expressions over columns of numbers. A column has one value per candidate, or one value
// for all candidates.
//
// The language is a subset of github.com/expr-lang/expr. Tokens and the texts of syntax errors are from that library.
// The parser of this package builds a tree of the tokens.
//
// The compiler checks the kinds of all values and translates the tree into steps over columns. Each step is evaluated for
// all candidates at once and allocates no memory.
//
// Tests compare results with the parser, checker and virtual machine of the library. The program does not use these:
// they call methods by name, so the linker would keep every exported method.
//
// Every value is a float64: true is 1, false is 0, and a text is its number in the Language. The functions min, max,
// sum, mean, count, any and all with one argument read the values of all candidates.
//
// Read formula.go, then tree.go, parse.go, names.go, lower.go and operations.go.
package formula

import "math"

// Kind is the type of a value.
type Kind uint8

const (
	Number  Kind = iota
	Integer      // a number without a fraction; suits Number
	Bool
	Text
)

func (k Kind) String() string {
	return [...]string{"a number", "a number", "true or false", "a text"}[k]
}

// Name is an input that an expression may read.
type Name struct {
	Name string // at most two parts, separated by a dot, such as request.priority
	Kind Kind
	Each bool // each candidate has a separate value
	// Second assigns the name to the second list of candidates. An expression cannot combine the values of each
	// candidate of both lists.
	Second bool
}

// Language has the names that expressions may read, and the numbers that represent texts.
type Language struct {
	names []Name
	texts map[string]float64
}

// NewLanguage returns a language of the given names.
func NewLanguage(names []Name) *Language {
	return &Language{names: names, texts: map[string]float64{}}
}

// NumberOf returns the number that represents a text, and assigns a new number to a new text.
func (l *Language) NumberOf(text string) float64 {
	n, ok := l.texts[text]
	if !ok {
		n = float64(len(l.texts))
		l.texts[text] = n
	}
	return n
}

// Texts returns all texts that have a number, ordered by number.
func (l *Language) Texts() []string {
	all := make([]string, len(l.texts))
	for text, n := range l.texts {
		all[int(n)] = text
	}
	return all
}

// Error is an error in an expression.
type Error struct {
	Line int // line of the expression, starting at 1
	Text string
}

func (e *Error) Error() string { return e.Text }

// Program evaluates all expressions added to it in one run. Program evaluates common subexpressions once.
type Program struct {
	language *Language
	inputs   []input
	steps    []step
	known    map[step]Value // result of each step, by the step without its target
	constant map[int]float64

	registers int
	stride    int    // capacity of a register in values, at least 1
	counts    [2]int // number of candidates of each list
	mixed     bool   // an expression combines values of each candidate of both lists
	buffer    []float64
	at        operands
}

// Value is the location of a value in a Program.
type Value struct {
	register int
	each     bool
	second   bool // has a value for each candidate of the second list
}

// Each reports whether the value differs by candidate.
func (v Value) Each() bool { return v.each }

// step is an operation that writes its result to the register to.
type step struct {
	do      operation
	to      Value
	a, b, c Value
}

// NewProgram returns a program without expressions.
func (l *Language) NewProgram() *Program {
	return &Program{language: l, known: map[step]Value{}, constant: map[int]float64{}}
}

// input is a name that the program reads. Field name is an index into the names of the language.
type input struct {
	name  int
	value Value
}

// Inputs returns the number of names that the program reads.
func (p *Program) Inputs() int { return len(p.inputs) }

// NameOf returns the index of an input's name in the language.
func (p *Program) NameOf(input int) int { return p.inputs[input].name }

// Begin allocates the columns for the given number of candidates.
func (p *Program) Begin(candidates int) { p.BeginBoth(candidates, 0) }

// BeginBoth is Begin with two lists of candidates.
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

// Input returns the slice that the caller fills with the values of an input: one per candidate, or a single value.
func (p *Program) Input(input int) []float64 { return p.column(p.inputs[input].value) }

// Column returns the values of v: one per candidate, or a single value.
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

// Run evaluates all expressions. The caller fills the inputs first.
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

// operand returns the column of v, and a mask. The bitwise AND of a candidate's index and the mask is its index in
// the column.
func (p *Program) operand(v Value) (column []float64, mask int) {
	if v.each {
		mask = math.MaxInt
	}
	return p.column(v), mask
}
