package tidy

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Doc comments begin with the verbs of the standard library: returns, reports, is. They do not begin with the verbs
// that this test lists.
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

// isBare reports whether a name is one word in small letters.
func isBare(name string) bool { return name == strings.ToLower(name) && name != "_" }

// Functions are a verb and its object. A function without a receiver has a second word, except for a few well-known
// ones; if the object is the receiver, the verb is enough.
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

// Words that have meant nine things each, and now mean none.
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
