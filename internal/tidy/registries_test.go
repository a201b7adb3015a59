package tidy

import (
	"slices"
	"strings"
	"testing"
)

// registry is the one place that names the concrete packages of a kind.
type registry struct {
	kind     string
	packages []string // folders that hold concrete ones
	users    []string // folders that may import them, those below included
}

// registries returns the kinds of things that are chosen by name. Whoever wants
// one asks its registry, so that adding another costs the places that
// ARCHITECTURE.md lists.
func registries() []registry {
	return []registry{
		{"engines", []string{"scheduler/vllm", "scheduler/sglang"}, []string{
			"scheduler/vllm", "scheduler/sglang",
			"replay/engineargs", // whose arguments name vLLM's rules
			"replay/engines",    // the registry
			"calibrate",         // fits the pass times of vLLM, and of nothing else
		}},
	}
}

// Concrete engines, and whatever else is chosen by name, are imported by their
// registry alone.
func TestOnlyRegistriesNameWhatIsChosen(t *testing.T) {
	within := func(dir string, folders []string) bool {
		return slices.ContainsFunc(folders, func(f string) bool { return dir == f || strings.HasPrefix(dir, f+"/") })
	}
	for _, r := range registries() {
		used := make(map[string]bool)
		for _, s := range parseAll(t) {
			if s.test {
				continue
			}
			for _, target := range s.ours(t) {
				if !within(target, r.packages) {
					continue
				}
				if !within(s.dir(), r.users) {
					complain(t, s.path, "%s imports %s: want its %s from their registry", s.path, target, r.kind)
				}
				for _, u := range r.users {
					used[u] = used[u] || within(s.dir(), []string{u})
				}
			}
		}
		for _, u := range r.users {
			if !used[u] && !within(u, r.packages) {
				t.Errorf("%s may name %s, and names none", u, r.kind)
			}
		}
	}
}
