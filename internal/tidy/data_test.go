package tidy

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Only internal/optional and the Makefile contain the default folder of optional data. All other files use one of
// these definitions. No code requires the data.
func TestOptionalDataHasOnePlace(t *testing.T) {
	places := []string{"Makefile", "internal/optional/optional.go"}
	folder := regexp.MustCompile(`\.\./shared\b|\bshared/(golden|measured|spec|tools|traces|vllm-runs)\b`)
	checked := 0
	for _, name := range listFiles(t) {
		if dir := path.Dir(name); dir == "internal/tidy" || strings.HasPrefix(name, "dist/") {
			continue
		}
		checked++
		text := readFile(t, name)
		found := folder.FindAllString(text, -1)
		switch {
		case !slices.Contains(places, name):
			for _, m := range found {
				t.Errorf("%s: %s, want optional.FindData or $(REPLAY_DATA)", name, m)
			}
		case len(found) != 1:
			t.Errorf("%s names the folder %d times, want once", name, len(found))
		}
	}
	if checked < 300 {
		t.Errorf("%d files, want all", checked)
	}
}

// Tests that require a program other than Go use internal/optional. internal/optional runs the program first, and
// skips the test with a message that names the program. Finding the program on the PATH is not sufficient.
func TestProgramsAreTried(t *testing.T) {
	for _, s := range parseAll(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || !s.test {
				return s.test
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "exec" && sel.Sel.Name == "LookPath" {
				t.Errorf("%s: exec.LookPath, want optional.Program", s.at(sel))
			}
			return true
		})
	}
}
