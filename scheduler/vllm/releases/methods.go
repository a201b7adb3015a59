package releases

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
)

// Method is a method of vLLM's speculative_config, with the work of the scheduler and the support by release.
type Method struct {
	Name string
	Kind scheduler.Drafter
	// First release that supports asynchronous scheduling with the method, and first release that uses it by default.
	// The value is laterThanAll if there is none.
	can, does [2]int
}

// laterThanAll returns a version later than all releases.
func laterThanAll() [2]int { return [2]int{1 << 30, 0} }

// Methods returns all known methods.
func Methods() []Method {
	return []Method{
		{Name: "eagle", Kind: scheduler.ByHead}, {Name: "eagle3", Kind: scheduler.ByHead}, {Name: "mtp", Kind: scheduler.ByHead},
		{Name: "draft_model", Kind: scheduler.ByDraftModel, does: [2]int{0, 28}},
		{Name: "ngram", can: [2]int{0, 33}, does: [2]int{0, 33}}, {Name: "ngram_gpu"},
		{Name: "suffix", can: laterThanAll(), does: laterThanAll()}, {Name: "medusa", can: laterThanAll(), does: laterThanAll()},
	}
}

// FindMethod returns the method with that name, which must be in Methods.
func FindMethod(name string) Method {
	all := Methods()
	return all[slices.IndexFunc(all, func(m Method) bool { return m.Name == name })]
}

// Asynchronous reports whether the releases of a profile schedule asynchronously with m by default, and whether they
// support it. An unknown profile counts as the newest profile.
func (m *Method) Asynchronous(profile string) (does, can bool) {
	k := findProfile(profile)
	if k == nil {
		k = findProfile(newestProfile)
	}
	return slices.Compare(k.from[:], m.does[:]) >= 0, slices.Compare(k.from[:], m.can[:]) >= 0
}
