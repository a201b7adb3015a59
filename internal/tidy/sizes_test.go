package tidy

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"testing"
)

// limits are what a type or a package may have at most. Split a duty to meet one, not a file.
func limits() map[string]int {
	return map[string]int{"methods": 80, "fields": 30, "lines": 5000, "files": 40}
}

// known is what exceeds a limit so far, by what there is too much of and the type or package. A number
// may only fall; what meets its limit leaves the list.
func known() map[string]map[string]int {
	return map[string]map[string]int{
		"lines": {"loadgen/formats": 9277},
		"files": {"loadgen/formats": 51},
	}

}

// A type has one duty and a package one subject: neither is larger than one person reads at a time. Tests do not count.
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
		checkSizes(t, what, found[what])
	}
}

// checkSizes compares what was found with its limit and with what is known to exceed it.
func checkSizes(t *testing.T, what string, found map[string]int) {
	t.Helper()
	limit, excused := limits()[what], known()[what]
	for _, name := range slices.Sorted(maps.Keys(found)) {
		n, most := found[name], limit
		if k, ok := excused[name]; ok {
			most = k
		}
		if n > most {
			t.Errorf("%s has %d %s, want at most %d", name, n, what, most)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(excused)) {
		switch n, k := found[name], excused[name]; {
		case n <= limit:
			t.Errorf("%s has %d %s and meets the limit %d: take it out of the known ones", name, n, what, limit)
		case n < k-k/20:
			t.Errorf("%s has %d %s, and is known with %d: lower that number", name, n, what, k)
		}
	}
}

// receiver returns the name of the type that a method is of.
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
