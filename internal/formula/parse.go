package formula

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser/lexer"

	"github.com/replay-llm/replay/internal/excerpt"
)

// longest is the maximum number of bytes of an expression. longest also limits the depth of nested expressions.
const longest = 4096

// reading parses tokens into a tree. After an error the current token is always EOF, so that all parse functions
// return.
type reading struct {
	source  string
	tokens  []lexer.Token
	next    int // index of the token after current
	current lexer.Token
	broken  *Error // the error after the last token
	err     *Error // the first error
}

// parseText returns the tree of an expression.
func parseText(text string) (*node, *Error) {
	p := &reading{source: text}
	p.readTokens()
	p.advance()
	tree := p.parseSequence()
	if !p.current.Is(lexer.EOF) {
		p.refuseToken()
	}
	return tree, p.err
}

// readTokens reads all tokens up to the first invalid token.
func (p *reading) readTokens() {
	l := lexer.New()
	l.Reset(file.NewSource(p.source))
	p.broken = &Error{Line: lineOf(p.source, len(p.source)), Text: "unexpected end of expression"}
	for {
		token, err := l.Next()
		if err != nil {
			if at := (*file.Error)(nil); errors.As(err, &at) {
				p.broken = &Error{Line: max(at.Line, 1), Text: at.Message}
			} else if !errors.Is(err, io.EOF) {
				p.broken = &Error{Line: 1, Text: err.Error()}
			}
			return
		}
		p.tokens = append(p.tokens, token)
	}
}

// lineOf returns the line of the character at an offset, starting at 1.
func lineOf(source string, from int) int {
	line := 1
	for _, r := range source {
		if from == 0 {
			break
		}
		if r == '\n' {
			line++
		}
		from--
	}
	return line
}

// advance moves to the next token.
func (p *reading) advance() {
	switch {
	case p.err != nil:
	case p.next == len(p.tokens):
		p.stop(p.broken)
	default:
		p.current = p.tokens[p.next]
		p.next++
	}
}

func (p *reading) stop(err *Error) {
	if p.err == nil {
		p.err, p.current = err, lexer.Token{Kind: lexer.EOF}
	}
}

// refuse stops parsing with an error about the current token.
func (p *reading) refuse(format string, args ...any) {
	p.stop(&Error{Line: lineOf(p.source, p.current.From), Text: excerpt.Sprintf(format, args...)})
}

func (p *reading) refuseToken() { p.refuse("unexpected token %v", p.current) }

// expect skips the current token if it has the given kind and value. Otherwise expect stops parsing with an error.
func (p *reading) expect(kind lexer.Kind, values ...string) {
	if !p.current.Is(kind, values...) {
		p.refuseToken()
		return
	}
	p.advance()
}

// skips skips the current token if it has the given kind and value. skips reports whether it skipped the token.
func (p *reading) skips(kind lexer.Kind, value string) bool {
	is := p.current.Is(kind, value)
	if is {
		p.advance()
	}
	return is
}

// parseSequence parses one expression, or several separated by semicolons.
func (p *reading) parseSequence() *node {
	all := []*node{p.parseExpression(0)}
	for p.skips(lexer.Operator, ";") && !p.current.Is(lexer.EOF) {
		all = append(all, p.parseExpression(0))
	}
	if len(all) == 1 {
		return all[0]
	}
	return &node{kind: sequenceNode, from: all[0].from, of: all}
}

// parseExpression parses an expression with operators of at least the given precedence.
func (p *reading) parseExpression(tight int) *node {
	if tight == 0 && p.skips(lexer.Operator, "let") {
		return p.parseLet()
	}
	if tight == 0 && p.skips(lexer.Operator, "if") {
		return p.parseIf()
	}
	left := p.parseOperand()
	for p.current.Is(lexer.Operator) {
		next := p.parseOperator(left, tight)
		if next == nil {
			break
		}
		left = next
	}
	if tight == 0 {
		left = p.parseChoice(left)
	}
	return left
}

// parseOperator parses an operator of at least the given precedence and its right operand. parseOperator returns nil
// if there is no such operator.
func (p *reading) parseOperator(left *node, tight int) *node {
	op, negated := p.current, p.current.Is(lexer.Operator, "not")
	if negated {
		if op = p.tokens[min(p.next, len(p.tokens)-1)]; !op.Is(lexer.Operator, "in", "matches", "contains", "startsWith", "endsWith") {
			p.advance()
			p.refuseToken()
			return nil
		}
	}
	own, rightFirst := precedenceOf(op.Value)
	if own < tight {
		return nil
	}
	if negated {
		p.advance()
	}
	p.advance()
	switch op.Value {
	case "|":
		name := p.current
		p.expect(lexer.Identifier)
		return p.parseCall(name, left)
	case "<", "<=", ">", ">=":
		return p.parseComparisons(left, op)
	}
	if !rightFirst {
		own++
	}
	n := &node{kind: binaryNode, from: op.From, text: op.Value, of: []*node{left, p.parseExpression(own)}}
	if negated {
		n = &node{kind: unaryNode, from: op.From, text: "not", of: []*node{n}}
	}
	return n
}

// parseComparisons parses a comparison, or a chain of comparisons that must all be true: a < b <= c.
func (p *reading) parseComparisons(left *node, op lexer.Token) *node {
	var all *node
	for {
		right := p.parseExpression(21)
		n := &node{kind: binaryNode, from: op.From, text: op.Value, of: []*node{left, right}}
		if all != nil {
			n = &node{kind: binaryNode, from: op.From, text: "&&", of: []*node{all, n}}
		}
		all, left, op = n, right, p.current
		if !op.Is(lexer.Operator, "<", "<=", ">", ">=") {
			return all
		}
		p.advance()
	}
}

func (p *reading) parseLet() *node {
	name := p.current
	p.expect(lexer.Identifier)
	p.expect(lexer.Operator, "=")
	value := p.parseExpression(0)
	p.expect(lexer.Operator, ";")
	return &node{kind: letNode, from: name.From, text: name.Value, of: []*node{value, p.parseSequence()}}
}

func (p *reading) parseIf() *node {
	condition := p.parseExpression(0)
	yes := p.parseBlock()
	p.expect(lexer.Operator, "else")
	var no *node
	if p.skips(lexer.Operator, "if") {
		no = p.parseIf()
	} else {
		no = p.parseBlock()
	}
	return &node{kind: choiceNode, text: "if", of: []*node{condition, yes, no}}
}

func (p *reading) parseBlock() *node {
	p.expect(lexer.Bracket, "{")
	n := p.parseSequence()
	p.expect(lexer.Bracket, "}")
	return n
}

// parseChoice parses the two alternatives of each conditional expression that follows a condition.
func (p *reading) parseChoice(n *node) *node {
	for p.skips(lexer.Operator, "?") {
		yes := n
		if !p.skips(lexer.Operator, ":") {
			yes = p.parseExpression(0)
			p.expect(lexer.Operator, ":")
		}
		no := p.parseExpression(0)
		n = &node{kind: choiceNode, from: p.current.From, of: []*node{n, yes, no}}
	}
	return n
}

// parseOperand parses an operand with its unary operators.
func (p *reading) parseOperand() *node {
	token := p.current
	if own := precedenceBefore(token.Value); own >= 0 && token.Is(lexer.Operator) {
		p.advance()
		return p.parseMembers(&node{kind: unaryNode, from: token.From, text: token.Value, of: []*node{p.parseExpression(own)}})
	}
	switch {
	case p.skips(lexer.Bracket, "("):
		n := p.parseSequence()
		p.expect(lexer.Bracket, ")")
		return p.parseMembers(n)
	case p.skips(lexer.Operator, "::"):
		name := p.current
		p.expect(lexer.Identifier)
		return p.parseMembers(p.parseCall(name))
	case token.Is(lexer.Bracket, "["):
		p.advance()
		return p.parseMembers(&node{kind: listNode, from: token.From, of: p.parseList("]")})
	case token.Is(lexer.Number):
		p.advance()
		return p.parseNumber(token)
	case token.Is(lexer.String):
		p.advance()
		return p.parseMembers(&node{kind: textNode, from: token.From, text: token.Value})
	case token.Is(lexer.Identifier):
		p.advance()
		return p.parseName(token)
	}
	p.refuseToken()
	return &node{from: token.From}
}

// parseName parses a literal, a call or a name.
func (p *reading) parseName(token lexer.Token) *node {
	switch token.Value {
	case "true":
		return &node{kind: boolNode, from: token.From, text: token.Value, value: 1}
	case "false":
		return &node{kind: boolNode, from: token.From, text: token.Value}
	case "nil":
		return &node{kind: nilNode, from: token.From, text: token.Value}
	}
	if p.current.Is(lexer.Bracket, "(") {
		return p.parseMembers(p.parseCall(token))
	}
	return p.parseMembers(&node{kind: nameNode, from: token.From, text: token.Value})
}

// parseNumber returns the node of a number. The current token is the token after the number.
func (p *reading) parseNumber(token lexer.Token) *node {
	text := strings.ReplaceAll(token.Value, "_", "")
	low := strings.ToLower(text)
	kind, base := "integer", 10
	switch {
	case strings.HasPrefix(low, "0x"):
		kind, base = "hex", 0
	case strings.ContainsAny(low, ".e"):
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			p.refuse("invalid float literal: %v", err)
		}
		return &node{kind: floatNode, from: token.From, text: fmt.Sprint(x), value: x}
	case strings.HasPrefix(low, "0b"):
		kind, base = "binary", 0
	case strings.HasPrefix(low, "0o"):
		kind, base = "octal", 0
	}
	x, err := strconv.ParseInt(text, base, 64)
	if err != nil {
		p.refuse("invalid %s literal: %v", kind, err)
	}
	return &node{kind: integerNode, from: token.From, text: strconv.FormatInt(x, 10), value: float64(x)}
}

// parseCall parses the arguments of a call and appends them to the given arguments.
func (p *reading) parseCall(name lexer.Token, arguments ...*node) *node {
	of := append([]*node{{kind: nameNode, from: name.From, text: name.Value}}, arguments...)
	p.expect(lexer.Bracket, "(")
	return &node{kind: callNode, from: name.From, of: append(of, p.parseList(")")...)}
}

// parseList parses expressions separated by commas, up to the closing bracket.
func (p *reading) parseList(end string) []*node {
	var all []*node
	for !p.current.Is(lexer.Bracket, end) && p.err == nil {
		if len(all) > 0 {
			p.expect(lexer.Operator, ",")
			if p.current.Is(lexer.Bracket, end) {
				break
			}
		}
		all = append(all, p.parseExpression(0))
	}
	p.expect(lexer.Bracket, end)
	return all
}

// parseMembers parses accesses to members of a value: a.b and a["b"].
func (p *reading) parseMembers(n *node) *node {
	for {
		begin := p.current
		switch {
		case p.skips(lexer.Operator, "."):
			name := p.current
			p.advance()
			if !name.Is(lexer.Identifier) && !(name.Is(lexer.Operator) && isName(name.Value)) {
				p.refuse("expected name")
			}
			n = &node{kind: memberNode, from: name.From, text: "field", of: []*node{n, {kind: textNode, from: name.From, text: name.Value}}}
			if p.skips(lexer.Bracket, "(") {
				n.text = "method"
				n = &node{kind: callNode, from: name.From, of: append([]*node{n}, p.parseList(")")...)}
			}
		case p.skips(lexer.Bracket, "["):
			n = &node{kind: memberNode, from: begin.From, text: "field", of: []*node{n, p.parseExpression(0)}}
			p.expect(lexer.Bracket, "]")
		default:
			return n
		}
	}
}
