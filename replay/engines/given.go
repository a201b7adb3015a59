package engines

import (
	"errors"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
)

// RenewPolicy makes a new router policy of a *policy.Given. If the policy follows caches, the engines report their
// caches.
func (s *Stage) RenewPolicy() error {
	choice, ok := s.Router.(*policy.Given)
	if !ok {
		return nil
	}
	o, err := s.policyOptions()
	if err != nil {
		return err
	}
	if s.given, err = choice.New(o); err != nil {
		return err
	}
	needs := s.given.Needs()
	_, admits := s.given.(router.Admission)
	switch {
	case admits && s.index > 0:
		return errors.New("a router policy of decode workers that holds requests back, use it at the entry only")
	case admits && s.Admission != nil:
		return errors.New("a router policy that holds requests back and an admission are mutually exclusive")
	}
	if needs.Overlap && s.Role != scheduler.Decode {
		s.Capture = max(s.Capture, s.routerCapture())
		for _, k := range s.kinds {
			s.Capture = max(s.Capture, k.routerCapture())
		}
	}
	return nil
}

// Admits reports whether requests may be held or shed before they are routed.
func (s *Stage) Admits() bool {
	_, own := s.given.(router.Admission)
	return own || s.Admission != nil
}
