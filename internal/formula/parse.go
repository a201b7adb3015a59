package formula

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"

	"github.com/replay-llm/replay/internal/nearest"
)

// longest is how many bytes an expression may have, so that none nests too deep.
const longest = 4096

// read returns what a text says, its names known and its types checked.
func (l *Language) read(text string) (*parser.Tree, *Error) {
	if len(text) > longest {
		return nil, &Error{Line: 1, Text: fmt.Sprintf("the expression has %d bytes, want at most %d", len(text), longest)}
	}
	config := l.config()
	tree, err := parser.ParseWithConfig(text, config)
	if err != nil {
		return nil, asError(err)
	}
	if err := l.checkNames(tree); err != nil {
		return nil, err
	}
	if _, err := checker.Check(tree, config); err != nil {
		return nil, asError(err)
	}
	return tree, nil
}

// config is the library's, with our names and functions in place of its own.
func (l *Language) config() *conf.Config {
	env := types.Map{}
	kinds := [...]types.Type{types.Float64, types.Int, types.Bool, types.String}
	for _, n := range l.names {
		group, own, isIn := strings.Cut(n.Name, ".")
		switch {
		case !isIn:
			env[n.Name] = kinds[n.Kind]
			continue
		case env[group] == nil:
			env[group] = types.Map{}
		}
		env[group].(types.Map)[own] = kinds[n.Kind]
	}
	c := conf.New(env)
	for _, b := range builtin.Builtins {
		c.Disabled[b.Name] = true
	}
	for _, f := range listFunctions() {
		c.Functions[f.name] = &builtin.Function{Name: f.name, Validate: f.check}
	}
	return c
}

// function is one that expressions may call.
type function struct {
	name string
	do   operation // of several values, or of one
	all  operation // of one value of all candidates; 0: there is none
	most int       // arguments
	bool bool      // of what is true or false
}

// listFunctions returns all functions.
func listFunctions() []function {
	return []function{
		{name: "min", do: lesser, all: least, most: 100},
		{name: "max", do: greater, all: most, most: 100},
		{name: "sum", all: total, most: 1},
		{name: "mean", all: mean, most: 1},
		{name: "count", all: total, most: 1, bool: true},
		{name: "any", all: most, most: 1, bool: true},
		{name: "all", all: least, most: 1, bool: true},
		{name: "abs", do: abs, most: 1},
		{name: "floor", do: floor, most: 1},
		{name: "ceil", do: ceil, most: 1},
		{name: "round", do: round, most: 1},
		{name: "lot", do: lot, most: 2},
	}
}

// kind returns what a call is, beside the kind of its arguments.
func (f *function) kind(ofArguments Kind) Kind {
	switch f.name {
	case "count":
		return Integer
	case "any", "all":
		return Bool
	case "min", "max", "sum", "abs":
		return ofArguments
	}
	return Number
}

// check returns the type of a call with arguments of these types.
func (f *function) check(arguments []reflect.Type) (reflect.Type, error) {
	least := 1
	if f.do == lot {
		least = 2
	}
	if n := len(arguments); n < least || n > f.most {
		return nil, fmt.Errorf("%s has %d arguments, want %d", f.name, n, min(max(n, least), f.most))
	}
	kind := Integer
	for _, t := range arguments {
		switch t.Kind() {
		case reflect.Int, reflect.Bool, reflect.String:
		default: // perhaps one of two kinds of numbers
			kind = Number
		}
	}
	return []reflect.Type{reflect.TypeFor[float64](), reflect.TypeFor[int](), reflect.TypeFor[bool]()}[f.kind(kind)], nil
}

// asError takes the place in the text and the complaint out of an error of the library.
func asError(err error) *Error {
	var at *file.Error
	if !errors.As(err, &at) {
		return &Error{Line: 1, Text: err.Error()}
	}
	return &Error{Line: max(at.Line, 1), Text: at.Message}
}

// names finds out which names an expression uses.
type names struct {
	used     []ast.Node
	declared []string                     // with let
	parts    map[*ast.IdentifierNode]bool // of a name of two parts, or of a call
}

// Visit is called for each node, once those below it have been seen.
func (n *names) Visit(node *ast.Node) {
	switch x := (*node).(type) {
	case *ast.IdentifierNode:
		n.used = append(n.used, x)
	case *ast.MemberNode:
		if group, ok := x.Node.(*ast.IdentifierNode); ok && nameOf(x) != "" {
			n.parts[group] = true
			n.used = append(n.used, x)
		}
	case *ast.VariableDeclaratorNode:
		n.declared = append(n.declared, x.Name)
	}
}

// nameOf returns the name that a node is, "" where it is none.
func nameOf(node ast.Node) string {
	switch x := node.(type) {
	case *ast.IdentifierNode:
		return x.Value
	case *ast.MemberNode:
		group, isName := x.Node.(*ast.IdentifierNode)
		own, isText := x.Property.(*ast.StringNode)
		if isName && isText && !x.Optional {
			return group.Value + "." + own.Value
		}
	}
	return ""
}

// checkNames refuses names that are unknown.
func (l *Language) checkNames(tree *parser.Tree) *Error {
	found := names{parts: map[*ast.IdentifierNode]bool{}}
	ast.Walk(&tree.Node, &found)
	var known []string
	for _, n := range l.names {
		known = append(known, n.Name)
	}
	for _, f := range listFunctions() {
		known = append(known, f.name)
	}
	for _, node := range found.used {
		name := nameOf(node)
		id, isName := node.(*ast.IdentifierNode)
		if isName && found.parts[id] || slices.Contains(known, name) || isName && slices.Contains(found.declared, name) {
			continue
		}
		at := &file.Error{Location: node.Location()}
		ask := nearest.Ask(name, known)
		if i := slices.IndexFunc(known, func(k string) bool { return strings.HasSuffix(k, "."+name) }); i >= 0 {
			ask = ", did you mean " + known[i] + "?"
		}
		return &Error{Line: at.Bind(tree.Source).Line, Text: name + " is unknown" + ask}
	}
	return nil
}
