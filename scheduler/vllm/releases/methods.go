package releases

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
)

// Method is a method of vLLM's speculative_config: what the scheduler does for it, and how the
// releases schedule with it.
type Method struct {
	Name string
	Kind scheduler.Drafter
	// The first release that can schedule asynchronously with it, and the first that does so by default; laterThanAll if there is
	// none.
	can, does [2]int
}

// laterThanAll returns a release later than any.
func laterThanAll() [2]int { return [2]int{1 << 30, 0} }

// Methods returns all that are known.
func Methods() []Method {
	return []Method{
		{Name: "eagle", Kind: scheduler.ByHead}, {Name: "eagle3", Kind: scheduler.ByHead}, {Name: "mtp", Kind: scheduler.ByHead},
		{Name: "draft_model", Kind: scheduler.ByDraftModel, does: [2]int{0, 28}},
		{Name: "ngram", can: [2]int{0, 33}, does: [2]int{0, 33}}, {Name: "ngram_gpu"},
		{Name: "suffix", can: laterThanAll(), does: laterThanAll()}, {Name: "medusa", can: laterThanAll(), does: laterThanAll()},
	}
}

// FindMethod returns the method of that name, which must be one of Methods.
func FindMethod(name string) Method {
	all := Methods()
	return all[slices.IndexFunc(all, func(m Method) bool { return m.Name == name })]
}

// Asynchronous reports whether the releases of a profile schedule asynchronously with m where
// nothing is said of it, and whether they can. A name that is none of a profile stands for the
// newest.
func (m *Method) Asynchronous(profile string) (does, can bool) {
	k := findProfile(profile)
	if k == nil {
		k = findProfile(newestProfile)
	}
	return slices.Compare(k.from[:], m.does[:]) >= 0, slices.Compare(k.from[:], m.can[:]) >= 0
}
