package files

import (
	"embed"
	"slices"
	"strings"

	"github.com/replay-llm/replay/router/policy"
)

//go:embed policies
var policies embed.FS

// PolicyNames returns the names of all policies of PolicyText. Policies of --router are first. Gateway policies are
// not included.
func PolicyNames() []string {
	var all []string
	for _, p := range policy.All() {
		if !p.Gateway { // expressions cannot read the state of gateway policies
			all = append(all, string(p.Name))
		}
	}
	entries, err := policies.ReadDir("policies")
	if err != nil {
		panic(err) // the folder is embedded
	}
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".yaml"); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// PolicyText returns the file of the policy with the given name.
func PolicyText(name string) ([]byte, error) { return policies.ReadFile("policies/" + name + ".yaml") }
