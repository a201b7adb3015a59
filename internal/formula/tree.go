package formula

import (
	"strconv"
	"strings"
	"unicode"
)

// nodeKind is the kind of a node of a tree.
type nodeKind uint8

const (
	nilNode      nodeKind = iota
	integerNode           // uses value
	floatNode             // uses value
	boolNode              // value is 0 or 1
	textNode              // uses text
	nameNode              // uses text
	memberNode            // of[0][of[1]]; text is "field" or "method" for errors
	unaryNode             // the operator text before the operand of[0]
	binaryNode            // the operator text between the operands of[0] and of[1]
	choiceNode            // of[0] ? of[1] : of[2]; text is "if" for an expression with if and else
	callNode              // a call of of[0] with the arguments of[1:]
	letNode               // declares the name text with the value of[0] in of[1]
	listNode              // the elements are of
	sequenceNode          // the expressions are of, separated by semicolons
)

// node is a node of the tree of an expression.
type node struct {
	kind  nodeKind
	from  int // offset of the node in the expression, in characters
	text  string
	value float64
	of    []*node
}

// nameOf returns the name that a node reads, or "" if the node is not a name.
func nameOf(n *node) string {
	switch {
	case n.kind == nameNode:
		return n.text
	case n.kind == memberNode && n.of[0].kind == nameNode && n.of[1].kind == textNode:
		return n.of[0].text + "." + n.of[1].text
	}
	return ""
}

// precedenceOf returns the precedence of a binary operator, and whether the operator is right-associative. The
// precedence is -1 if op is not a binary operator.
func precedenceOf(op string) (tight int, rightFirst bool) {
	switch op {
	case "|":
		return 0, false
	case "or", "||":
		return 10, false
	case "and", "&&":
		return 15, false
	case "==", "!=", "<", ">", ">=", "<=", "in", "matches", "contains", "startsWith", "endsWith":
		return 20, false
	case "..":
		return 25, false
	case "+", "-":
		return 30, false
	case "*", "/", "%":
		return 60, false
	case "**", "^":
		return 100, true
	case "??":
		return 500, false
	}
	return -1, false
}

// precedenceBefore returns the precedence of a unary operator, or -1 if op is not a unary operator.
func precedenceBefore(op string) int {
	switch op {
	case "not", "!":
		return 50
	case "-", "+":
		return 90
	}
	return -1
}

// String returns the text of a node, with parentheses only where they are required.
func (n *node) String() string {
	switch n.kind {
	case unaryNode:
		return n.printUnary()
	case binaryNode:
		return n.printBinary()
	case memberNode:
		return n.printMember()
	case choiceNode:
		return n.printChoice()
	case callNode:
		return n.of[0].String() + "(" + printAll(n.of[1:], ", ") + ")"
	case letNode:
		return "let " + n.text + " = " + n.of[0].String() + "; " + n.of[1].String()
	case listNode:
		return "[" + printAll(n.of, ", ") + "]"
	case sequenceNode:
		return printAll(n.of, "; ")
	case textNode:
		return strconv.Quote(n.text)
	}
	return n.text
}

func printAll(nodes []*node, between string) string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.String()
	}
	return strings.Join(all, between)
}

// printIn returns the text of a node, in parentheses if parentheses is true.
func (n *node) printIn(parentheses bool) string {
	if parentheses {
		return "(" + n.String() + ")"
	}
	return n.String()
}

func (n *node) printUnary() string {
	op, of := n.text, n.of[0]
	if op == "not" {
		op = "not "
	}
	tight, _ := precedenceOf(of.text)
	return op + of.printIn(of.kind == choiceNode || of.kind == binaryNode && tight < precedenceBefore(n.text))
}

func (n *node) printBinary() string {
	if n.text == ".." {
		return n.of[0].String() + ".." + n.of[1].String()
	}
	var sides [2]string
	tight, rightFirst := precedenceOf(n.text)
	for i, of := range n.of {
		inner, _ := precedenceOf(of.text)
		loose := false
		switch of.kind {
		case choiceNode:
			loose = true
		case unaryNode:
			loose = i == 0 && precedenceBefore(of.text) < tight
		case binaryNode:
			mixed := (inner == 10 || inner == 15) && of.text != n.text // "and" with "or", and "and" with "&&"
			loose = inner < tight || inner == tight && rightFirst == (i == 0) || mixed || i == 0 && of.text == "??"
		}
		sides[i] = of.printIn(loose)
	}
	return sides[0] + " " + n.text + " " + sides[1]
}

func (n *node) printMember() string {
	base := n.of[0].printIn(n.of[0].kind == binaryNode)
	if n.of[1].kind == textNode && isName(n.of[1].text) {
		return base + "." + n.of[1].text
	}
	return base + "[" + n.of[1].String() + "]"
}

func (n *node) printChoice() string {
	if n.text == "if" {
		text := "if " + n.of[0].String() + " { " + n.of[1].String() + " } else "
		if n.of[2].kind == choiceNode && n.of[2].text == "if" {
			return text + n.of[2].String()
		}
		return text + "{ " + n.of[2].String() + " }"
	}
	var parts [3]string
	for i, of := range n.of {
		parts[i] = of.printIn(of.kind == choiceNode)
	}
	return parts[0] + " ? " + parts[1] + " : " + parts[2]
}

// isName reports whether a text is a valid name.
func isName(text string) bool {
	for i, r := range text {
		if r != '_' && r != '$' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return false
		}
	}
	return text != ""
}
