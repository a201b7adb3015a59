package formula

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/sim"
)

// readByLibrary parses text with the parser of the library. The result own reports whether the tree has only parts
// that this package supports. The result isTyped reports whether the library's checker accepts the tree.
func (l *Language) readByLibrary(text string) (printed string, complaint *Error, own, isTyped bool) {
	config := l.libraryConfig()
	tree, err := parser.ParseWithConfig(text, config)
	if err != nil {
		complaint = asLibraryError(err)
		return "", complaint, !strings.Contains(complaint.Text, "coalesce expressions"), false
	}
	parts := libraryParts{own: true}
	ast.Walk(&tree.Node, &parts)
	if !parts.own {
		return "", nil, false, false
	}
	ours, complaint := parseText(text)
	if complaint != nil {
		return tree.Node.String(), nil, true, false
	}
	printed, complaint = tree.Node.String(), l.checkNames(ours, text)
	_, err = checker.Check(tree, config)
	return printed, complaint, true, err == nil
}

// libraryConfig returns the configuration of the library with the names and functions of l.
func (l *Language) libraryConfig() *conf.Config {
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
		c.Functions[f.name] = &builtin.Function{Name: f.name, Validate: f.checkLibraryTypes}
	}
	return c
}

// checkLibraryTypes returns the result type of a call with arguments of the given types.
func (f *function) checkLibraryTypes(arguments []reflect.Type) (reflect.Type, error) {
	kind := Integer
	for _, t := range arguments {
		if t == nil || t.Kind() != reflect.Int && t.Kind() != reflect.Bool && t.Kind() != reflect.String {
			kind = Number
		}
	}
	if least, most := f.countArguments(); len(arguments) < least || len(arguments) > most {
		return nil, errArguments
	}
	return []reflect.Type{reflect.TypeFor[float64](), reflect.TypeFor[int](), reflect.TypeFor[bool]()}[f.kind(kind)], nil
}

var errArguments = errors.New("wrong number of arguments")

// asLibraryError returns the line and the text of an error of the library.
func asLibraryError(err error) *Error {
	var at *file.Error
	if !errors.As(err, &at) {
		return &Error{Line: 1, Text: err.Error()}
	}
	return &Error{Line: max(at.Line, 1), Text: at.Message}
}

// libraryParts sets own to false if a tree has a part that this package does not support.
type libraryParts struct{ own bool }

func (p *libraryParts) Visit(node *ast.Node) {
	switch (*node).(type) {
	case *ast.BytesNode, *ast.ChainNode, *ast.SliceNode, *ast.BuiltinNode, *ast.PredicateNode, *ast.PointerNode, *ast.MapNode, *ast.PairNode:
		p.own = false
	}
}

// spoil inserts, replaces or removes some words of an expression.
func spoil(r *rand.Rand, text string) string {
	words := splitWords(text)
	more := strings.Fields(`( ) [ ] , ; : ? . + - * / % ** ^ .. | ?? < <= > >= == != = and or not in && || ! true false nil let x y = else
		contains matches startsWith 1 0 2.5 0x1F 1e400 99999999999999999999 "a" 'b' running kv_usage kind ready request request.class requst min max lot lots any abs [1,"a"] [2,3] x y`)
	more = append(more, "if ready { 1 } else { 2 }", "if running > 1 { kind } else if ready { \"a\" } else { nil }")
	for range 1 + r.IntN(3) {
		at := r.IntN(len(words) + 1)
		switch word := more[r.IntN(len(more))]; r.IntN(4) {
		case 0:
			words = slices.Insert(words, at, word)
		case 1, 2:
			words = slices.Insert(slices.Delete(words, min(at, len(words)-1), min(at+1, len(words))), min(at, len(words)-1), word)
		default:
			words = slices.Delete(words, min(at, len(words)-1), min(at+1, len(words)))
		}
		if len(words) == 0 {
			break
		}
	}
	return strings.Join(words, []string{" ", "\n"}[r.IntN(2)])
}

// splitWords splits text at spaces and around brackets and commas.
func splitWords(text string) []string {
	for _, bracket := range []string{"(", ")", "[", "]", ","} {
		text = strings.ReplaceAll(text, bracket, " "+bracket+" ")
	}
	return strings.Fields(text)
}

// Package formula and the library expr-lang/expr parse the same trees. The errors of package formula and of the
// library have the same line and text. Package formula rejects each tree that the checker of the library rejects.
func TestLibraryReadsTheSame(t *testing.T) {
	w := &writer{Rand: sim.NewRand(7, "formula")}
	l := NewLanguage(testNames())
	trees, typed, refused, foreign := 0, 0, 0, 0
	draws := long.Cases(10_000, 300_000)
	for range draws {
		text := w.number(1+w.IntN(3), w.IntN(2) == 0).ours
		if w.IntN(2) == 0 {
			text = w.truth(1 + w.IntN(3)).ours
		}
		if w.IntN(8) > 0 {
			text = spoil(w.Rand, text)
		}
		if len(text) > longest {
			continue
		}
		printed, want, own, isTyped := l.readByLibrary(text)
		tree, got := l.read(text)
		if !own || got != nil && got.Text == `unexpected token Operator(":")` { // the text may contain a slice, which only the library supports
			foreign++
			continue
		}
		if want == nil != (got == nil) || want != nil && *got != *want {
			t.Fatalf("%q: %+v, and %+v by the library", text, got, want)
		}
		if got != nil {
			refused++
			continue
		}
		if trees++; tree.String() != printed {
			t.Fatalf("%q: %s, and %s by the library", text, tree, printed)
		}
		isAdded := false
		for _, kind := range []Kind{Number, Bool, Text} {
			_, err := l.NewProgram().Add(text, kind)
			isAdded = isAdded || err == nil
		}
		if isAdded && !isTyped {
			t.Fatalf("%q: accepted, and refused by the library", text)
		}
		if isAdded {
			typed++
		}
	}
	t.Logf("%d trees alike, %d of them accepted, %d expressions refused alike, %d of parts that we have not", trees, typed, refused, foreign)
	if typed < draws/10 || refused < draws/4 || foreign > draws/20 {
		t.Error("few expressions are read, or many are left out")
	}
}
