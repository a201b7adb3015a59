package formula

import (
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/nearest"
)

// read parses an expression and checks that its names are known.
func (l *Language) read(text string) (*node, *Error) {
	if len(text) > longest {
		return nil, &Error{Line: 1, Text: fmt.Sprintf("the expression has %d bytes, must have at most %d", len(text), longest)}
	}
	tree, err := parseText(text)
	if err != nil {
		return nil, err
	}
	return tree, l.checkNames(tree, text)
}

// function is a function that expressions may call.
type function struct {
	name string
	do   operation // combines two arguments, or changes a single argument; 0: none
	all  operation // reads the single argument of all candidates; 0: none
	most int       // maximum number of arguments
	bool bool      // arguments must be of kind Bool
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

// kind returns the kind of the result of a call, by the kind of its arguments.
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

// countArguments returns the minimum and maximum number of arguments.
func (f *function) countArguments() (least, most int) {
	if f.do == lot {
		return 2, 2
	}
	return 1, f.most
}

// findFunction returns the function with a name, or nil.
func findFunction(name string) *function {
	all := listFunctions()
	if i := slices.IndexFunc(all, func(f function) bool { return f.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// names lists the names that an expression uses.
type names struct {
	used     []*node
	declared []string // declared with let
}

// add adds the names of a node, after the names of its child nodes.
func (n *names) add(of *node) {
	isMember := of.kind == memberNode && nameOf(of) != ""
	for _, part := range of.of {
		if !isMember {
			n.add(part)
		}
	}
	switch {
	case isMember || of.kind == nameNode:
		n.used = append(n.used, of)
	case of.kind == letNode:
		n.declared = append(n.declared, of.text)
	}
}

// checkNames returns an error for the first unknown name.
func (l *Language) checkNames(tree *node, source string) *Error {
	var found names
	found.add(tree)
	var known []string
	for _, n := range l.names {
		known = append(known, n.Name)
	}
	for _, f := range listFunctions() {
		known = append(known, f.name)
	}
	for _, node := range found.used {
		name := nameOf(node)
		if slices.Contains(known, name) || node.kind == nameNode && slices.Contains(found.declared, name) {
			continue
		}
		ask := nearest.Ask(name, known)
		if i := slices.IndexFunc(known, func(k string) bool { return strings.HasSuffix(k, "."+name) }); i >= 0 {
			ask = ", did you mean " + known[i] + "?"
		}
		return &Error{Line: lineOf(source, node.from), Text: name + " is unknown" + ask}
	}
	return nil
}
