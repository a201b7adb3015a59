package formula

import (
	"math"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Add adds an expression that must have the kind want, and returns the location of its value.
func (p *Program) Add(text string, want Kind) (Value, *Error) {
	tree, err := p.language.read(text)
	if err != nil {
		return Value{}, err
	}
	w := &lowering{Program: p, source: text, scope: map[string]term{}}
	x := w.lower(tree)
	if !x.kind.suits(want) {
		w.refuse(tree, "the expression is %v, must be %v", x.kind, want)
	}
	if p.mixed && w.err == nil {
		w.refuse(tree, "values of each candidate of two lists side by side, expected min(...), sum(...) or such of one of them")
	}
	p.mixed = false
	p.buffer = nil // registers were added, so Begin must allocate a new buffer
	return x.Value, w.err
}

// suits reports whether a value of kind k is valid if the kind want is required.
func (k Kind) suits(want Kind) bool { return k == want || k == Integer && want == Number }

// join returns the common kind of two values. ok reports whether they have a common kind.
func (k Kind) join(other Kind) (both Kind, ok bool) {
	if k.suits(other) {
		return other, true
	}
	return k, other.suits(k)
}

// lowering compiles a tree into steps.
type lowering struct {
	*Program
	source string
	scope  map[string]term // values of names declared with let
	err    *Error          // the first error
}

// term is the location and kind of the value of a node.
type term struct {
	Value
	kind Kind
}

func (w *lowering) refuse(at *node, format string, args ...any) term {
	if w.err == nil {
		w.err = &Error{Line: lineOf(w.source, at.from), Text: excerpt.Sprintf(format, args...)}
	}
	return term{}
}

// lower compiles a node and returns the term of its value.
func (w *lowering) lower(n *node) term {
	switch n.kind {
	case integerNode:
		return term{w.addConstant(n.value), Integer}
	case floatNode:
		return term{w.addConstant(n.value), Number}
	case boolNode:
		return term{w.addConstant(n.value), Bool}
	case textNode:
		return term{w.addConstant(w.language.NumberOf(n.text)), Text}
	case nameNode, memberNode:
		return w.lowerName(n)
	case unaryNode:
		return w.lowerUnary(n)
	case binaryNode:
		return w.lowerBinary(n)
	case choiceNode:
		return w.lowerChoice(n)
	case callNode:
		return w.lowerCall(n)
	case letNode:
		return w.lowerLet(n)
	}
	return w.refuse(n, "%s: must be an expression of numbers, names and %s", n, nameFunctions())
}

// nameFunctions returns the names of all functions for an error.
func nameFunctions() string {
	var all []string
	for _, f := range listFunctions() {
		all = append(all, f.name)
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " and " + all[last]
}

// lowerName returns the term of a name.
func (w *lowering) lowerName(n *node) term {
	name := nameOf(n)
	if x, ok := w.scope[name]; ok {
		return x
	}
	i := slices.IndexFunc(w.language.names, func(known Name) bool { return known.Name == name })
	if i < 0 {
		return w.refuse(n, "%s: must be the name of a value", n)
	}
	kind := w.language.names[i].Kind
	if place := slices.IndexFunc(w.inputs, func(in input) bool { return in.name == i }); place >= 0 {
		return term{w.inputs[place].value, kind}
	}
	return term{w.addInput(i), kind}
}

// lowerLet declares a name with a value for the second part of a let expression.
func (w *lowering) lowerLet(n *node) term {
	_, isTaken := w.scope[n.text]
	isTaken = isTaken || findFunction(n.text) != nil || slices.ContainsFunc(w.language.names, func(known Name) bool {
		group, _, _ := strings.Cut(known.Name, ".")
		return group == n.text
	})
	if isTaken {
		return w.refuse(n, "let %s: there is a value or a function of this name, must be a new name", n.text)
	}
	w.scope[n.text] = w.lower(n.of[0])
	defer delete(w.scope, n.text)
	return w.lower(n.of[1])
}

func (w *lowering) lowerUnary(n *node) term {
	of := w.lower(n.of[0])
	switch {
	case n.text == "!" || n.text == "not":
		if of.kind != Bool {
			return w.refuse(n, "%s of %v, must be %v", n.text, of.kind, Bool)
		}
		return term{w.addStep(not, of.Value), Bool}
	case !of.kind.suits(Number):
		return w.refuse(n, "%s of %v, must be %v", n.text, of.kind, Number)
	case n.text == "-":
		return term{w.addStep(negate, of.Value), of.kind}
	}
	return of
}

func (w *lowering) lowerBinary(n *node) term {
	switch n.text {
	case "in":
		return w.lowerIn(n)
	case ">", ">=":
		return w.combine(n, w.lower(n.of[1]), w.lower(n.of[0]))
	}
	return w.combine(n, w.lower(n.of[0]), w.lower(n.of[1]))
}

// combine returns the result of a binary operator for two terms.
func (w *lowering) combine(n *node, a, b term) term {
	kind, alike := a.kind.join(b.kind)
	is, want := Bool, Number
	var do operation
	switch n.text {
	case "+":
		do, is = add, kind
	case "-":
		do, is = subtract, kind
	case "*":
		do, is = multiply, kind
	case "/":
		do, is = divide, Number
	case "%":
		do, is, want = modulo, Integer, Integer
	case "<", ">":
		do = less
	case "<=", ">=":
		do = atMost
	case "==":
		do, want = equal, kind
	case "!=":
		do, want = unequal, kind
	case "and", "&&":
		do, want = and, Bool
	case "or", "||":
		do, want = or, Bool
	default:
		return w.refuse(n, "no %s here, must be one of + - * / %% < <= > >= == != and or in ?:", n.text)
	}
	if want == Integer && kind == Number && alike {
		return w.refuse(n, "%s requires whole numbers", n.text)
	}
	if !alike || !kind.suits(want) {
		return w.refuse(n, "%s of %v and %v has no meaning here", n.text, a.kind, b.kind)
	}
	return term{w.addStep(do, a.Value, b.Value), is}
}

// lowerIn compiles the operator in, for a value and a list.
func (w *lowering) lowerIn(n *node) term {
	list := n.of[1]
	if list.kind != listNode {
		return w.refuse(n, "in: must be a list behind it, as [1, 2]")
	}
	of, found := w.lower(n.of[0]), w.addConstant(0)
	for _, part := range list.of {
		item := w.lower(part)
		if _, alike := item.kind.join(of.kind); !alike {
			return w.refuse(n, "in: %v in the list, must be %v", item.kind, of.kind)
		}
		found = w.addStep(or, found, w.addStep(equal, of.Value, item.Value))
	}
	return term{found, Bool}
}

// lowerChoice compiles a conditional expression.
func (w *lowering) lowerChoice(n *node) term {
	condition, a, b := w.lower(n.of[0]), w.lower(n.of[1]), w.lower(n.of[2])
	kind, alike := a.kind.join(b.kind)
	switch {
	case condition.kind != Bool:
		return w.refuse(n.of[0], "the condition is %v, must be %v", condition.kind, Bool)
	case !alike:
		return w.refuse(n, "%v ? %v : %v, expected values of one kind by true or false", condition.kind, a.kind, b.kind)
	}
	return term{w.addStep(choose, condition.Value, a.Value, b.Value), kind}
}

// lowerCall compiles a call of a function. A function over all candidates requires an argument that differs by
// candidate.
func (w *lowering) lowerCall(n *node) term {
	f := findFunction(nameOf(n.of[0]))
	if f == nil {
		return w.refuse(n, "%s: must be one of %s", n.of[0], nameFunctions())
	}
	if least, most := f.countArguments(); len(n.of) <= least || len(n.of) > most+1 {
		return w.refuse(n, "%s has %d arguments, must have %d", f.name, len(n.of)-1, min(max(len(n.of)-1, least), most))
	}
	result, want := term{}, Number
	if f.bool {
		want = Bool
	}
	for k, argument := range n.of[1:] {
		next := w.lower(argument)
		if !next.kind.suits(want) {
			return w.refuse(argument, "%s of %v, must be %v", f.name, next.kind, want)
		}
		if k == 0 {
			result = next
			continue
		}
		result.kind, _ = result.kind.join(next.kind)
		result.Value = w.addStep(f.do, result.Value, next.Value)
	}
	kind := f.kind(result.kind)
	switch {
	case len(n.of) > 2:
		return term{result.Value, kind}
	case f.all == 0:
		return term{w.addStep(f.do, result.Value), kind}
	case !result.each && w.err == nil:
		return w.refuse(n, "%s: all candidates have the same value, must differ between them", n)
	}
	return term{w.addStep(f.all, result.Value), kind}
}

// addInput adds a register for a name of the language.
func (p *Program) addInput(name int) Value {
	n := &p.language.names[name]
	v := p.addRegister(n.Each, n.Each && n.Second)
	p.inputs = append(p.inputs, input{name, v})
	return v
}

// addConstant returns the location of a constant.
func (p *Program) addConstant(x float64) Value {
	for register, y := range p.constant {
		if math.Float64bits(x) == math.Float64bits(y) {
			return Value{register: register}
		}
	}
	v := p.addRegister(false, false)
	p.constant[v.register] = x
	return v
}

func (p *Program) addRegister(each, second bool) Value {
	p.registers++
	return Value{p.registers - 1, each, second}
}

// addStep adds an operation and returns the location of its result. Operations on constants are evaluated
// immediately.
func (p *Program) addStep(do operation, of ...Value) Value {
	s := step{do: do}
	values := [...]*Value{&s.a, &s.b, &s.c}
	constant, isConstant := [3][]float64{{0}, {0}, {0}}, true
	for i, v := range of {
		*values[i] = v
		if v.each && do < least {
			p.mixed = p.mixed || s.to.each && s.to.second != v.second
			s.to.each, s.to.second = true, v.second
		}
		x, ok := p.constant[v.register]
		constant[i][0], isConstant = x, isConstant && ok
	}
	if isConstant {
		result := []float64{0}
		applyStep(do, result, &operands{a: constant[0], b: constant[1], c: constant[2]})
		return p.addConstant(result[0])
	}
	if v, ok := p.known[s]; ok {
		return v
	}
	key := s
	v := p.addRegister(s.to.each, s.to.second)
	s.to, p.known[key] = v, v
	p.steps = append(p.steps, s)
	return v
}
