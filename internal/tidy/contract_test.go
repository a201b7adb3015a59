package tidy

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

// The only interface for cores is scheduler.Core. Optional abilities are methods of scheduler.Core that Able reports,
// with defaults in scheduler.Base.
//
// A type assertion of a core to another interface is not allowed. A type assertion fails silently if a core has no
// such method or if a wrapper hides the method.
func TestCoresHaveOneContract(t *testing.T) {
	contracts := map[string]bool{} // names of interfaces with their package
	for _, s := range parseAll(t) {
		if dir := s.dir(); dir != "scheduler" && dir != "scheduler/lockstep" {
			continue
		}
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				if x, ok := spec.(*ast.TypeSpec); ok {
					if _, ok := x.Type.(*ast.InterfaceType); ok {
						contracts[s.file.Name.Name+"."+x.Name.Name] = true
					}
				}
			}
		}
	}
	if !contracts["scheduler.Core"] {
		t.Fatalf("interfaces of package scheduler: %v, want scheduler.Core", contracts)
	}
	for _, s := range parseAll(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			x, ok := n.(*ast.TypeAssertExpr)
			if !ok || x.Type == nil {
				return true
			}
			name := typeName(x.Type, path.Base(s.dir()))
			_, literal := x.Type.(*ast.InterfaceType)
			if contracts[name] || literal && namesCore(x.X) {
				t.Errorf("%s: an interface is looked for in a core: want a method of scheduler.Core and a bit of Able", s.at(x))
			}
			return true
		})
	}
}

// typeName returns the qualified name of a type. own is the package of unqualified names.
func typeName(e ast.Expr, own string) string {
	switch e := e.(type) {
	case *ast.Ident:
		return own + "." + e.Name
	case *ast.SelectorExpr:
		if p, ok := e.X.(*ast.Ident); ok {
			return p.Name + "." + e.Sel.Name
		}
	}
	return ""
}

// namesCore reports whether the name of a value contains core or rank.
func namesCore(e ast.Expr) bool {
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	}
	name = strings.ToLower(name)
	return strings.Contains(name, "core") || strings.Contains(name, "rank")
}
