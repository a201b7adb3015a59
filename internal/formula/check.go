package formula

import (
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
)

// form is the type of a part of an expression, by its name in errors; "unknown" suits everything.
type form string

const (
	unknownForm  form = "unknown"
	nilForm      form = "nil"
	intForm      form = "int"
	floatForm    form = "float64"
	boolForm     form = "bool"
	textForm     form = "string"
	functionForm form = "func(...interface {}) (interface {}, error)"
	anyForm      form = "interface {}" // an item of a list of several forms; it suits everything
	listForm     form = "[]"           // before the form of its items
)

// String returns how errors name f.
func (f form) String() string {
	switch {
	case f == nilForm:
		return string(unknownForm)
	case f.isList():
		return "[]interface {}"
	}
	return string(f)
}

func (f form) isUnknown() bool { return f == unknownForm || f == anyForm }
func (f form) isNumber() bool  { return f == intForm || f == floatForm }
func (f form) isList() bool    { return strings.HasPrefix(string(f), string(listForm)) }

// item returns the form of the items of a list.
func (f form) item() form { return f[len(listForm):] }

// suits reports whether f can stand where another form is.
func (f form) suits(other form) bool {
	switch {
	case f == nilForm:
		return other.isList() || other == functionForm || other == anyForm
	case f == unknownForm:
		return false
	}
	return f == other || other == anyForm || f.isList() && other.isList()
}

// compares reports whether f can be compared with another form.
func (f form) compares(other form) bool {
	return f.isUnknown() || other.isUnknown() || f == nilForm || other == nilForm || f.isNumber() && other.isNumber() || f.suits(other)
}

// checking gives the parts of an expression their forms.
type checking struct {
	*Language
	source string
	scope  []binding // what let names, the last one innermost
	err    *Error    // the first complaint
}

// binding is a name of let.
type binding struct {
	name string
	form form
}

// checkTypes refuses what has no meaning for types such as these.
func (l *Language) checkTypes(tree *node, source string) *Error {
	c := &checking{Language: l, source: source}
	c.check(tree)
	return c.err
}

func (c *checking) refuse(at *node, format string, args ...any) form {
	if c.err == nil {
		c.err = &Error{Line: lineOf(c.source, at.from), Text: excerpt.Sprintf(format, args...)}
	}
	return unknownForm
}

// check returns the form of a node.
func (c *checking) check(n *node) form {
	switch n.kind {
	case nilNode:
		return nilForm
	case integerNode:
		return intForm
	case floatNode:
		return floatForm
	case boolNode:
		return boolForm
	case textNode:
		return textForm
	case nameNode:
		return c.checkName(n)
	case memberNode:
		return c.checkMember(n)
	case unaryNode:
		return c.checkUnary(n)
	case binaryNode:
		return c.checkBinary(n)
	case choiceNode:
		return c.checkChoice(n)
	case callNode:
		return c.checkCall(n)
	case letNode:
		return c.checkLet(n)
	case listNode:
		return c.checkList(n)
	}
	last := unknownForm
	for _, part := range n.of {
		last = c.check(part)
	}
	return last
}

// findName returns the form of a name of the language.
func (c *checking) findName(name string) (form, bool) {
	i := slices.IndexFunc(c.names, func(n Name) bool { return n.Name == name })
	if i < 0 {
		return unknownForm, false
	}
	return [...]form{floatForm, intForm, boolForm, textForm}[c.names[i].Kind], true
}

func (c *checking) checkName(n *node) form {
	for _, b := range slices.Backward(c.scope) {
		if b.name == n.text {
			return b.form
		}
	}
	if f, ok := c.findName(n.text); ok {
		return f
	}
	if findFunction(n.text) != nil {
		return functionForm
	}
	return c.refuse(n, "unknown name %s", n.text) // outside its let
}

func (c *checking) checkMember(n *node) form {
	if f, ok := c.findName(nameOf(n)); ok {
		return f
	}
	base, property := c.check(n.of[0]), c.check(n.of[1])
	name := n.of[1]
	switch {
	case base.isUnknown():
		return unknownForm
	case base == nilForm && name.kind == textNode:
		return c.refuse(n, "type nil has no field %s", name.text)
	case base.isList() && property != intForm && !property.isUnknown():
		return c.refuse(name, "array elements can only be selected using an integer (got %s)", property)
	case base.isList():
		return base.item()
	case name.kind == textNode:
		return c.refuse(n, "type %v has no %s %v", base, n.text, name.text)
	}
	return c.refuse(n, "type %v[%v] is undefined", base, property)
}

func (c *checking) checkUnary(n *node) form {
	of := c.check(n.of[0])
	logical := n.text == "not" || n.text == "!"
	switch {
	case logical && (of == boolForm || of.isUnknown()):
		return boolForm
	case !logical && of.isUnknown():
		return unknownForm
	case !logical && of.isNumber():
		return of
	}
	return c.refuse(n, "invalid operation: %s (mismatched type %s)", n.text, of)
}

func (c *checking) checkBinary(n *node) form {
	a, b := c.check(n.of[0]), c.check(n.of[1])
	isInt, isText, isBool := isForm(intForm), isForm(textForm), isForm(boolForm)
	both, sum := [2]form{a, b}, sumForms(a, b)
	switch n.text {
	case "==", "!=":
		if a.compares(b) {
			return boolForm
		}
		return c.mismatch(n, both)
	case "in":
		return c.checkIn(n, a, b)
	case "??":
		return mergeForms(a, b)
	case "or", "||", "and", "&&":
		return c.checkPair(n, both, boolForm, isBool)
	case "<", ">", ">=", "<=":
		return c.checkPair(n, both, boolForm, form.isNumber, isText)
	case "+":
		if a == textForm && b == textForm {
			return textForm
		}
		return c.checkPair(n, both, sum, form.isNumber, isText)
	case "-", "*":
		return c.checkPair(n, both, sum, form.isNumber)
	case "/", "**", "^":
		return c.checkPair(n, both, floatForm, form.isNumber)
	case "%":
		return c.checkPair(n, both, intForm, isInt)
	case "..":
		return c.checkPair(n, both, listForm+intForm, isInt)
	}
	return c.checkPair(n, both, boolForm, isText) // matches, contains, startsWith, endsWith
}

// isForm returns a function that reports whether a form is this one.
func isForm(want form) func(form) bool { return func(f form) bool { return f == want } }

// checkPair returns is where both sides are of one of some kinds; an unknown side is of each.
func (c *checking) checkPair(n *node, sides [2]form, is form, kinds ...func(form) bool) form {
	for _, suits := range kinds {
		if (sides[0].isUnknown() || suits(sides[0])) && (sides[1].isUnknown() || suits(sides[1])) {
			return is
		}
	}
	return c.mismatch(n, sides)
}

func (c *checking) mismatch(n *node, sides [2]form) form {
	return c.refuse(n, "invalid operation: %s (mismatched types %s and %s)", n.text, sides[0], sides[1])
}

// sumForms returns what a sum of two forms is.
func sumForms(a, b form) form {
	switch {
	case !a.isNumber() || !b.isNumber():
		return unknownForm
	case a == floatForm || b == floatForm:
		return floatForm
	}
	return intForm
}

// mergeForms returns what a ?? b is.
func mergeForms(a, b form) form {
	switch {
	case a == nilForm:
		return b
	case b == nilForm || b.suits(a):
		return a
	}
	return unknownForm
}

func (c *checking) checkIn(n *node, of, list form) form {
	switch {
	case list.isList() && !of.compares(list.item()):
		return c.refuse(n, "cannot use %s as type %s in array", of, list.item())
	case list.isList() || list.isUnknown() || of.isUnknown() && list == textForm:
		return boolForm
	}
	return c.mismatch(n, [2]form{of, list})
}

func (c *checking) checkChoice(n *node) form {
	condition := c.check(n.of[0])
	if condition != boolForm && !condition.isUnknown() {
		return c.refuse(n.of[0], "non-bool expression (type %v) used as condition", condition)
	}
	a, b := c.check(n.of[1]), c.check(n.of[2])
	switch {
	case a == nilForm:
		return b
	case b == nilForm:
		return a
	case !a.suits(b):
		return unknownForm
	case a.isList() && b.isList() && (!a.item().suits(b.item()) || !b.item().suits(a.item())):
		return listForm + anyForm
	}
	return a
}

// checkCall returns what a call is.
func (c *checking) checkCall(n *node) form {
	callee := c.check(n.of[0])
	switch name := nameOf(n.of[0]); {
	case callee.isUnknown():
		return unknownForm
	case callee == nilForm:
		return c.refuse(n, "%v is nil; cannot call nil as function", name)
	case callee != functionForm:
		return c.refuse(n, "%s is not callable", callee)
	}
	kind := Integer
	for _, argument := range n.of[1:] {
		switch c.check(argument) {
		case intForm, boolForm, textForm:
		default: // perhaps one of two kinds of numbers
			kind = Number
		}
	}
	f, count := findFunction(nameOf(n.of[0])), len(n.of)-1
	if f == nil { // another name for a function, which lowering refuses
		return unknownForm
	}
	if least, most := f.countArguments(); count < least || count > most {
		return c.refuse(n, "%s has %d arguments, want %d", f.name, count, min(max(count, least), most))
	}
	return [...]form{floatForm, intForm, boolForm}[f.kind(kind)]
}

func (c *checking) checkLet(n *node) form {
	isKnown := slices.ContainsFunc(c.names, func(known Name) bool {
		group, _, _ := strings.Cut(known.Name, ".")
		return group == n.text
	})
	switch {
	case isKnown:
		return c.refuse(n, "cannot redeclare %v", n.text)
	case findFunction(n.text) != nil:
		return c.refuse(n, "cannot redeclare function %v", n.text)
	case slices.ContainsFunc(c.scope, func(b binding) bool { return b.name == n.text }):
		return c.refuse(n, "cannot redeclare variable %v", n.text)
	}
	value := c.check(n.of[0])
	c.scope = append(c.scope, binding{n.text, value})
	is := c.check(n.of[1])
	c.scope = c.scope[:len(c.scope)-1]
	return is
}

func (c *checking) checkList(n *node) form {
	item, alike := unknownForm, true
	for i, part := range n.of {
		next := c.check(part)
		alike = alike && (i == 0 || next == item || next.isList() && item.isList())
		item = next
	}
	if !alike {
		item = anyForm
	}
	return listForm + item
}
