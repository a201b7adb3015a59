package tidy

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

// The contract of a core is one interface: optional abilities are methods of scheduler.Core that Able announces, with
// defaults in scheduler.Base. Code that looks for another interface in a core makes a second contract, which a core
// breaks without notice when it forgets a method or a wrapper hides it.
func TestCoresHaveOneContract(t *testing.T) {
	contracts := map[string]bool{} // interfaces by package and name
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

// typeName returns the name of a type with its package; a name without one is of package own.
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

// namesCore reports whether a value is called a core or a rank.
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
