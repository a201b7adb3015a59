package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/router"
)

// signalOf returns the signal that provides a fact, "" if there is none.
func signalOf(fact string) router.Signal {
	switch fact {
	case "requests", "tokens_to_compute", "active_blocks", "active_overlap":
		return router.Loads
	case cachedBlocks:
		return router.Caches
	case "running", "waiting", "kv_usage":
		return router.Signal(fact)
	}
	return ""
}

// signalsOf returns the signals that provide the given facts, in the order of router.AllSignals.
func signalsOf(facts []string) []router.Signal {
	var all []router.Signal
	for _, s := range router.AllSignals() {
		if slices.ContainsFunc(facts, func(name string) bool { return signalOf(name) == s }) {
			all = append(all, s)
		}
	}
	return all
}

// ListSignals returns the signals that t reads.
func (t *Text) ListSignals() []router.Signal { return signalsOf(t.LooksAt()) }

// ListSignals returns the signals that a reads.
func (a *Admission) ListSignals() []router.Signal { return signalsOf(a.LooksAt()) }

// ListSignals returns all signals, because the signals that g reads are known only after the policy is made.
func (g *Given) ListSignals() []router.Signal { return router.AllSignals() }

// ListSignals returns the signals that p reads. Before the start of the program, ListSignals returns all signals.
func (p *Process) ListSignals() []router.Signal {
	if len(p.Facts) == 0 {
		return router.AllSignals()
	}
	return signalsOf(p.Facts)
}

// ListSignals returns the signals that p reads.
func (p *Picker) ListSignals() []router.Signal {
	facts := p.listFacts()
	if p.Decode != nil {
		facts = append(facts, p.OnDecode().listFacts()...)
	}
	return signalsOf(facts)
}

// listFacts returns the facts that the picker reads in one pool.
func (p *Picker) listFacts() (facts []string) {
	if p.FollowsCaches() {
		facts = append(facts, cachedBlocks)
	}
	switch {
	case p.Gate == nil:
	case p.Gate.ReadsMetrics():
		facts = append(facts, "waiting", "kv_usage")
	default:
		facts = append(facts, "requests")
	}
	for i := range p.Filters {
		switch p.Filters[i].Kind {
		case UsageLimit:
			facts = append(facts, "waiting", "kv_usage")
		case InFlightLimit:
			facts = append(facts, "requests")
		case PrefixAffinity:
			if p.Filters[i].ReadsTokens() {
				facts = append(facts, "requests")
			}
		}
	}
	for i := range p.Scorers {
		switch p.Scorers[i].Kind {
		case FreeKV:
			facts = append(facts, "kv_usage")
		case ShortQueue, LoadAware:
			facts = append(facts, "waiting")
		case FewRunning:
			facts = append(facts, "running")
		case ActiveRequests, TokenLoad:
			facts = append(facts, "requests")
		}
	}
	return facts
}

// ListSignals returns the signals that the policy n reads.
func (n Name) ListSignals() []router.Signal {
	info := n.Info()
	if info.Caches {
		return []router.Signal{router.Caches, router.Loads}
	}
	if info.make == nil {
		return nil
	}
	if p, err := info.make(Options{}); err == nil && p.Needs().Running {
		return []router.Signal{router.Loads}
	}
	return nil
}

// DescribeSignals returns a description of the ages of the signals that a policy reads. gated reports whether the
// policy has a gate.
func DescribeSignals(looks []router.Signal, s router.Signals, gated bool) string {
	var all []string
	for _, x := range looks {
		var parts []string
		age := s.AgeOf(x, gated)
		if age.Never {
			all = append(all, string(x)+" never received")
			continue
		}
		if age.Delay > 0 {
			parts = append(parts, fmt.Sprintf("%v ms old", float64(age.Delay)))
		}
		if age.Interval > 0 {
			parts = append(parts, fmt.Sprintf("read every %v ms", float64(age.Interval)))
		}
		if len(parts) == 0 {
			parts = append(parts, "known at once")
		}
		all = append(all, string(x)+" "+strings.Join(parts, ", "))
	}
	return strings.Join(all, "; ")
}
