package tidy

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// registry describes the packages of a kind that only their registry may import.
type registry struct {
	kind  string
	homes []string // folders with the packages of the kind
	users []string // folders that may import these packages, including subfolders
}

// registries returns the registries of engines and of trace formats. All other packages get an engine or a format
// from its registry. ARCHITECTURE.md lists the files that a new engine or format changes.
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
			"calibrate",         // fits the pass durations of vLLM only
		}},
		{"trace formats", readers, append([]string{
			"loadgen/formats/registry",
			"internal/cmd/options", // checks the columns that the user names
		}, readers...)},
	}
}

// isWithin reports whether dir is one of the folders or a subfolder of one.
func isWithin(dir string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return dir == f || strings.HasPrefix(dir, f+"/") })
}

// Only registries, and packages about a single engine or format, import engines and trace formats.
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

// namedList describes functions or types of a package that only some files may refer to.
type namedList struct {
	kind  string
	dir   string
	names string   // pattern of these functions and types
	files []string // files that may refer to the complete list; other files may refer only to names that they define
}

func namedLists() []namedList {
	return []namedList{
		{"router policies", "router/policy", `^new[A-Z]\w*$`, []string{"registry.go"}},
		{"timing models", "scheduler/timing", `^(Polynomial|LoadNPZ|roofline)$`, []string{"source.go"}},
	}
}

// Only the registry, and the file that declares it, refer to a router policy or a timing model.
func TestOnlyRegistriesNameWhatIsChosen(t *testing.T) {
	for _, l := range namedLists() {
		pattern := regexp.MustCompile(l.names)
		home := make(map[string]string) // file that declares a name, by name
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

// mentions returns the folders that may use a constant outside of its registry, by the name of the constant.
func mentions() map[string][]string {
	engines := []string{
		"replay/engineargs", "replay/engines",
		"replay/offline",             // runs a single vLLM worker alone, like the reference
		"report/ledger",              // counts whole blocks of vLLM
		"live/cmd/replay-live/serve", // checks one engine of each kind
		"tools",                      // measures one engine of each kind
	}
	return map[string][]string{"engineargs.VLLM": engines, "engineargs.SGLang": engines}
}

// Only the folders of mentions depend on the kind of an engine.
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

// listDeclared returns the names of functions and types that a file declares.
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
