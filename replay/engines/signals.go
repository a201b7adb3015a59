package engines

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// ListSignals returns the signals that the routers and the admission read.
func (t *Topology) ListSignals() []router.Signal {
	looks := t.Choice().ListSignals()
	if t.Admission != nil {
		looks = append(looks, t.Admission.ListSignals()...)
	}
	return slices.DeleteFunc(router.AllSignals(), func(s router.Signal) bool { return !slices.Contains(looks, s) })
}

// ageSignals returns the ages of signals.
func (t *Topology) ageSignals() router.Signals {
	if text, ok := t.Router.(*policy.Text); ok {
		return text.Signals.Under(t.Signals)
	}
	return t.Signals
}

// listSignalsOf is ListSignals after the policies of a *policy.Given are made.
func (t *Topology) listSignalsOf(all []*Stage) []router.Signal {
	others := *t
	if policy.Is[*policy.Given](t.Router) {
		others.Router = nil
	}
	looks := others.ListSignals()
	for _, s := range all {
		if s.given != nil {
			needs := s.given.Needs()
			looks = append(looks, needs.ListSignals()...)
		}
	}
	return looks
}

// CheckSignals rejects ages of signals that the router does not read, and invalid ages.
func (t *Topology) CheckSignals() error { return t.checkSignals(t.ListSignals()) }

func (t *Topology) checkSignals(looks []router.Signal) error {
	ages := t.ageSignals()
	for _, s := range ages.List() {
		switch age := ages.AgeOf(s, false); {
		case len(looks) == 0:
			return fmt.Errorf("%s, and the router reads no signal", s)
		case !slices.Contains(looks, s):
			return fmt.Errorf("%s, and the router reads only %s", s, joinSignals(looks))
		case age.Never && s != router.Caches:
			return fmt.Errorf("%s=never: only %s may never reach a router", s, router.Caches)
		case !(age.Delay >= 0 && age.Delay <= longestAge && (age.Interval == 0 || age.Interval >= 1 && age.Interval <= longestAge)):
			return fmt.Errorf("%s %v ms old, read every %v ms, must be a delay of 0 to 24h and an interval of 0, or 1 ms to 24h", s, float64(age.Delay), float64(age.Interval))
		}
	}
	return nil
}

// longestAge is the maximum delay and interval of a signal.
const longestAge sim.Time = 24 * 3_600_000

// joinSignals returns a text with the names of signals.
func joinSignals(all []router.Signal) string {
	text := ""
	for i, s := range all {
		switch {
		case i == 0:
		case i+1 == len(all):
			text += " and "
		default:
			text += ", "
		}
		text += string(s)
	}
	return text
}
