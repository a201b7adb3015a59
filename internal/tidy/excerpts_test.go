package tidy

import (
	"go/ast"
	"strings"
	"testing"
)

// Errors that quote text with %q use excerpt.Errorf, which cuts long texts, or quote only a part of the text.
func TestErrorsQuoteExcerpts(t *testing.T) {
	for _, s := range parseAll(t) {
		if s.test || s.foreign() || strings.HasPrefix(s.path, "tools/") || strings.HasPrefix(s.path, ".ci/") || strings.HasPrefix(s.path, "examples/") || s.dir() == "internal/script" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 || !isSelector(call.Fun, "fmt", "Errorf") {
				return true
			}
			format, ok := call.Args[0].(*ast.BasicLit)
			if !ok || !strings.Contains(format.Value, "%q") {
				return true
			}
			for _, arg := range call.Args {
				if cut, ok := arg.(*ast.CallExpr); ok && isSelector(cut.Fun, "excerpt", "Cut") {
					return true
				}
			}
			t.Errorf("%s: an error quotes a text of any length: use excerpt.Errorf", s.at(call))
			return true
		})
	}
}

// Only internal/cmd/cli prints notes and warnings, because it cuts long texts.
func TestNotesAreCut(t *testing.T) {
	for _, s := range parseAll(t) {
		if s.test || s.dir() == "internal/cmd/cli" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if ok && (strings.HasPrefix(text.Value, `"replay: warning`) || strings.HasPrefix(text.Value, `"replay: %s\n`)) {
				t.Errorf("%s: a note of any length: use cli.FormatNote or Streams.Warn", s.at(text))
			}
			return true
		})
	}
}

// isSelector reports whether an expression is the given name of a package.
func isSelector(x ast.Expr, pkg, name string) bool {
	s, ok := x.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == pkg
}
