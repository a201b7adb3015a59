package tidy

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"testing"
)

// limits returns the maximum sizes of types and packages. If a package or type exceeds a limit, split its
// responsibilities and not only its files.
func limits() map[string]int {
	return map[string]int{"methods": 80, "fields": 30, "lines": 5000, "files": 40}
}

// Types and packages are small enough to read in one sitting. Test files are not counted.
func TestSizes(t *testing.T) {
	found := map[string]map[string]int{"methods": {}, "fields": {}, "lines": {}, "files": {}}
	for _, s := range parseAll(t) {
		if s.test || s.foreign() {
			continue
		}
		dir := s.dir()
		found["files"][dir]++
		found["lines"][dir] += s.set.File(s.file.FileStart).LineCount()
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					found["methods"][path.Join(dir, receiver(d))]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if x, ok := spec.(*ast.TypeSpec); ok {
						if x, is := x.Type.(*ast.StructType); is {
							found["fields"][path.Join(dir, spec.(*ast.TypeSpec).Name.Name)] = x.Fields.NumFields()
						}
					}
				}
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(found)) {
		for _, name := range slices.Sorted(maps.Keys(found[what])) {
			if n, most := found[what][name], limits()[what]; n > most {
				t.Errorf("%s has %d %s, must have at most %d", name, n, what, most)
			}
		}
	}
}

// receiver returns the name of a method's receiver type.
func receiver(f *ast.FuncDecl) string {
	e := f.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
