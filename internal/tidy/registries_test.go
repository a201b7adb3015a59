package tidy

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// registry is the one place that names the concrete things of a kind.
type registry struct {
	kind  string
	homes []string // folders that hold concrete ones
	users []string // folders that may import them, those below included
}

// registries returns the kinds of things of which each is a package. Callers get one from its registry, so that adding
// another costs the places that ARCHITECTURE.md lists.
func registries() []registry {
	var readers []string
	for _, name := range []string{"mooncake", "tables", "texts", "sessions", "results", "servegen"} {
		readers = append(readers, "loadgen/formats/"+name)
	}
	return []registry{
		{"engines", []string{"scheduler/vllm", "scheduler/sglang", "scheduler/trtllm"}, []string{
			"scheduler/vllm", "scheduler/sglang", "scheduler/trtllm",
			"replay/engineargs", // its arguments name vLLM's rules
			"replay/engines",    // the registry
			"calibrate",         // fits the pass times of vLLM, and of nothing else
		}},
		{"trace formats", readers, append([]string{
			"loadgen/formats/registry",
			"internal/cmd/options", // checks the columns that the user names
		}, readers...)},
	}
}

// isWithin reports whether dir is one of the folders or below it.
func isWithin(dir string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return dir == f || strings.HasPrefix(dir, f+"/") })
}

// Concrete engines are imported by their registry, and by packages that are about one of them alone.
func TestOnlyRegistriesImportWhatIsChosen(t *testing.T) {
	for _, r := range registries() {
		used := make(map[string]bool)
		for _, s := range parseAll(t) {
			if s.test {
				continue
			}
			for _, target := range s.ours(t) {
				if !isWithin(target, r.homes) {
					continue
				}
				if !isWithin(s.dir(), r.users) {
					t.Errorf("%s imports %s: want its %s from their registry", s.path, target, r.kind)
				}
				for _, u := range r.users {
					used[u] = used[u] || isWithin(s.dir(), []string{u})
				}
			}
		}
		for _, u := range r.users {
			if !used[u] && !isWithin(u, r.homes) {
				t.Errorf("%s may import %s, and imports none", u, r.kind)
			}
		}
	}
}

// namedList is the one file that names the concrete things of a kind which stand
// side by side in one package.
type namedList struct {
	kind  string
	dir   string
	names string   // matches the functions and types that stand for one of them
	files []string // that may name them all; other files only their own
}

func namedLists() []namedList {
	return []namedList{
		{"router policies", "router/policy", `^new[A-Z]\w*$`, []string{"registry.go"}},
		{"timing models", "scheduler/timing", `^(Polynomial|LoadNPZ|roofline)$`, []string{"source.go"}},
	}
}

// Router policies and timing models are named in their registry
// alone, and in the file that holds them.
func TestOnlyRegistriesNameWhatIsChosen(t *testing.T) {
	for _, l := range namedLists() {
		pattern := regexp.MustCompile(l.names)
		home := make(map[string]string) // by name, the file that declares it
		for _, s := range parseAll(t) {
			if s.dir() != l.dir || s.test {
				continue
			}
			for _, name := range listDeclared(s.file) {
				if pattern.MatchString(name) && !slices.Contains(l.files, path.Base(s.path)) {
					home[name] = path.Base(s.path)
				}
			}
		}
		if len(home) < 2 {
			t.Errorf("%s: %d of %s, want more", l.dir, len(home), l.kind)
		}
		for _, s := range parseAll(t) {
			if s.test {
				continue
			}
			inside, file := s.dir() == l.dir, path.Base(s.path)
			ast.Inspect(s.file, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if sel, is := n.(*ast.SelectorExpr); is && !inside {
					if x, is := sel.X.(*ast.Ident); is && x.Name == path.Base(l.dir) {
						id, ok = sel.Sel, true
					}
				} else if !inside {
					return true
				}
				if !ok || inside && slices.Contains(l.files, file) {
					return true
				}
				if where, found := home[id.Name]; found && !(inside && where == file) {
					t.Errorf("%s names %s of %s: want it from the registry of %s", s.at(id), id.Name, where, l.kind)
				}
				return true
			})
		}
	}
}

// mentions returns, by name of a constant, the files that may compare with it outside its registry.
func mentions() map[string][]string {
	engines := []string{
		"replay/engineargs", "replay/engines",
		"replay/offline",             // one vLLM worker is driven by itself, as in the reference
		"report/ledger",              // vLLM's blocks count as a whole
		"live/cmd/replay-live/serve", // checks one of each
		"tools",                      // measures one of each
	}
	return map[string][]string{"engineargs.VLLM": engines, "engineargs.SGLang": engines}
}

// Few places depend on the kind of an engine.
func TestFewTellEnginesApart(t *testing.T) {
	used := make(map[string]bool)
	for _, s := range parseAll(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			users, ok := mentions()[x.Name+"."+sel.Sel.Name]
			if ok && !isWithin(s.dir(), users) {
				t.Errorf("%s names %s.%s: want it left to the registry", s.at(sel), x.Name, sel.Sel.Name)
			}
			for _, u := range users {
				used[u] = used[u] || isWithin(s.dir(), []string{u})
			}
			return true
		})
	}
	for _, u := range mentions()["engineargs.VLLM"] {
		if !used[u] && u != "replay/engineargs" {
			t.Errorf("%s may tell engines apart, and does not", u)
		}
	}
}

// listDeclared returns the functions and types of a file.
func listDeclared(f *ast.File) []string {
	var names []string
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if typ, ok := spec.(*ast.TypeSpec); ok {
					names = append(names, typ.Name.Name)
				}
			}
		}
	}
	return names
}
