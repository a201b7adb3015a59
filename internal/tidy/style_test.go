package tidy

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

const (
	maxFunction  = 80 // number of lines
	maxParameter = 5
)

func TestLengths(t *testing.T) {
	for _, s := range parseAll(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || s.test {
				continue
			}
			from, to := s.set.Position(f.Pos()).Line, s.set.Position(f.End()).Line
			if to-from+1 > maxFunction {
				t.Errorf("%s:%d: %s has %d lines, want at most %d", s.path, from, f.Name.Name, to-from+1, maxFunction)
			}
			if n := f.Type.Params.NumFields(); n > maxParameter {
				t.Errorf("%s:%d: %s has %d parameters, want at most %d", s.path, from, f.Name.Name, n, maxParameter)
			}
		}
	}
}

// There are no init functions and no package-level variables with state.
func TestNoPackageState(t *testing.T) {
	for _, s := range parseAll(t) {
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s: init, want no code before main", s.set.Position(d.Pos()))
				}
			case *ast.GenDecl:
				if d.Tok == token.VAR && !s.test && !isEmbedded(d) {
					checkVariables(t, &s, d)
				}
			}
		}
	}
}

// isEmbedded reports whether a variable contains embedded files, which cannot be constants in Go.
func isEmbedded(d *ast.GenDecl) bool {
	return d.Doc != nil && strings.HasPrefix(d.Doc.List[len(d.Doc.List)-1].Text, "//go:embed ")
}

// checkVariables reports package-level variables, except sentinel errors and the blank identifier, which cannot be
// constants in Go. checkVariables also permits variables named memo, because a memo does not change results.
func checkVariables(t *testing.T, s *source, d *ast.GenDecl) {
	t.Helper()
	for _, spec := range d.Specs {
		for _, name := range spec.(*ast.ValueSpec).Names {
			if name.Name != "_" && name.Name != "memo" && !strings.HasPrefix(strings.ToLower(name.Name), "err") {
				t.Errorf("%s: package-level variable %s", s.set.Position(name.Pos()), name.Name)
			}
		}
	}
}

// Exported names have a doc comment. Methods of an interface may omit the doc comment.
func TestExportedNamesAreDocumented(t *testing.T) {
	for _, s := range parseAll(t) {
		if s.test || s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Recv == nil && d.Doc == nil {
					t.Errorf("%s: %s has no comment", s.set.Position(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if typ, ok := spec.(*ast.TypeSpec); ok && typ.Name.IsExported() && d.Doc == nil && typ.Doc == nil {
						t.Errorf("%s: %s has no comment", s.set.Position(typ.Pos()), typ.Name.Name)
					}
				}
			}
		}
	}
}
