package tidy

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Doc comments say what something does or is, as those of the standard library:
// they return, report, and are; they neither say nor tell.
func TestDocCommentsArePlain(t *testing.T) {
	for _, s := range parseAll(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Doc == nil {
				continue
			}
			opens := regexp.MustCompile(`^` + f.Name.Name + `\s+(says|tells)\b`)
			if m := opens.FindString(joinComment(f.Doc)); m != "" {
				complain(t, s.path, "%s: %q: want what it returns or reports", s.at(f), m)
			}
		}
	}
}

// isBare reports whether a name is one word in small letters.
func isBare(name string) bool { return name == strings.ToLower(name) && name != "_" }

// Functions are a verb and its object. Where the object is the receiver, the verb
// stands alone; a function without a receiver has a second word, but for a few
// that everybody knows.
func TestFunctionsNameTheirObject(t *testing.T) {
	known := []string{"main", "run", "init"}
	for _, s := range parseAll(t) {
		if s.test {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !isBare(f.Name.Name) || slices.Contains(known, f.Name.Name) {
				continue
			}
			kind := "func"
			if f.Recv != nil {
				kind = "method"
			}
			complain(t, s.path, "%s: %s %s", s.at(f), kind, f.Name.Name)
		}
	}
}
