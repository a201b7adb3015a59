package tidy

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Doc comments use the verbs of the standard library: returns, reports, is. Doc comments do not start with the verbs
// in this test.
func TestDocCommentsArePlain(t *testing.T) {
	for _, s := range parseAll(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Doc == nil {
				continue
			}
			opens := regexp.MustCompile(`^` + f.Name.Name + `\s+(says|tells)\b`)
			if m := opens.FindString(joinComment(f.Doc)); m != "" {
				t.Errorf("%s: %q: want what it returns or reports", s.at(f), m)
			}
		}
	}
}

// isBare reports whether a name is one lower-case word.
func isBare(name string) bool { return name == strings.ToLower(name) && name != "_" }

// The name of a function is a verb and its object. Functions without a receiver have at least two words, except for
// some well-known names. If the receiver is the object, a verb is sufficient.
func TestFunctionsNameTheirObject(t *testing.T) {
	known := []string{"main", "run", "init", "exp", "usagef", "errorf"}
	for _, s := range parseAll(t) {
		if s.test {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && isBare(f.Name.Name) && !slices.Contains(known, f.Name.Name) {
				t.Errorf("%s: %s: want a verb and its object", s.at(f), f.Name.Name)
			}
		}
	}
}

// The listed verbs are too vague for names of functions.
func TestVagueMethods(t *testing.T) {
	vague := []string{"settle", "take", "look", "tell", "say", "deal", "goOn", "handle", "process"}
	for _, s := range parseAll(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && !s.test && slices.Contains(vague, f.Name.Name) {
				t.Errorf("%s: %s: want the field's own word", s.at(f), f.Name.Name)
			}
		}
	}
}
