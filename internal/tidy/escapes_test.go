package tidy

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Only report/watch and the library progressbar write escape sequences for colors and cursor movement. cli.TerminalOf
// decides whether the output is a terminal (TestEscapesOnTerminals).
func TestEscapesHaveOnePlace(t *testing.T) {
	places := []string{"report/watch/frame.go", "report/watch/screen.go"}
	seen := map[string]bool{}
	for _, s := range parseAll(t) {
		if strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING && literal.Kind != token.CHAR {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil || !strings.Contains(text, "\x1b") {
				return true
			}
			if seen[s.path] = true; !slices.Contains(places, s.path) {
				t.Errorf("%s: an escape sequence, want it in %s", s.at(literal), strings.Join(places, " or "))
			}
			return true
		})
	}
	for _, place := range places {
		if !seen[place] {
			t.Errorf("%s: no escape sequence there, want the list without it", place)
		}
	}
}
