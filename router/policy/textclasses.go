package policy

import (
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/scheduler"
)

// requestClass is the name of the fact with the class of a request.
const requestClass = "request.class"

// defaultClass is the class of requests without one.
const defaultClass = "default"

// classNumber returns the number of the name of the request's class.
func classNumber(s *sight) float64 {
	if class := int(s.request.Class); class < len(s.classes) {
		return s.classes[class]
	}
	return s.language.NumberOf(defaultClass)
}

// checkClasses rejects texts that name no class, if expressions read classes and requests have some. Without this
// check, a rule with a wrong class name would never apply, without an error.
func (s *sight) checkClasses(facts []string) error {
	if len(s.Classes) == 0 || !slices.Contains(facts, requestClass) {
		return nil
	}
	classes := []string{defaultClass}
	for _, c := range s.Classes {
		classes = append(classes, c.Name)
	}
	known := slices.Clone(classes)
	for _, w := range s.Workers {
		known = append(known, w.Kind)
	}
	for _, r := range []scheduler.Role{scheduler.Aggregated, scheduler.Prefill, scheduler.Decode} {
		known = append(known, r.String())
	}
	for _, text := range s.language.Texts() {
		if !slices.Contains(known, text) {
			return excerpt.Errorf("no class of requests is %q%s", text, nearest.Ask(text, classes))
		}
	}
	return nil
}
