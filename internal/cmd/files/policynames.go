package files

import (
	"embed"
	"slices"
	"strings"

	"github.com/replay-llm/replay/router/policy"
)

//go:embed policies
var policies embed.FS

// PolicyNames returns the names of the policies that PolicyText has, those of --router first, without those of gateways.
func PolicyNames() []string {
	var all []string
	for _, p := range policy.All() {
		if !p.Gateway { // no expression has its state
			all = append(all, string(p.Name))
		}
	}
	entries, err := policies.ReadDir("policies")
	if err != nil {
		panic(err) // it is in the program
	}
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".yaml"); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// PolicyText returns the file of a policy.
func PolicyText(name string) ([]byte, error) { return policies.ReadFile("policies/" + name + ".yaml") }
