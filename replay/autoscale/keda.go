package autoscale

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/sim"
)

// keda scales as KEDA does: between no worker and one by whether a trigger is active, and from
// there on by HPA on the sums of metrics (docs/autoscaling.md, KEDA).
type keda struct {
	governor
	reason
	poll   sim.Time // when it looks next whether a trigger is active
	active sim.Time // when one was, last
	begun  bool
}

// Want returns the number of workers.
func (k *keda) Want(s *Signals) int {
	if s.At == 0 {
		k.why = "nothing has been read"
		return s.Workers
	}
	if !k.begun {
		k.begun, k.active = true, sim.Time(math.Inf(-1))
	}
	if s.Now >= k.poll {
		k.poll = s.Now + k.c.Polling
		if n, done := k.activate(s); done {
			return n
		}
	}
	if s.Workers == 0 {
		k.why = "no trigger is active"
		return 0
	}
	n := 0
	for i, t := range k.c.Targets {
		if want := k.c.averageValue(s, t); want > n || i == 0 {
			n, k.why = want, fmt.Sprintf("%s is %.4g, threshold %.4g: %d", t.Metric, s.Sum(t.Metric), t.Value, want)
		}
	}
	to, held := k.govern(s, n, max(k.c.Min, 1))
	k.why += held
	return to
}

// activate looks whether a trigger is active, and goes from no worker to one or back. done
// reports whether it did.
func (k *keda) activate(s *Signals) (n int, done bool) {
	for _, t := range k.c.Targets {
		if total := s.Sum(t.Metric); total > t.Activation {
			k.active = s.Now
			if s.Workers > 0 {
				return 0, false
			}
			k.why = fmt.Sprintf("%s is %.4g, above its activation of %.4g", t.Metric, total, t.Activation)
			return max(k.c.Min, 1), true
		}
	}
	idle := s.Now - k.active
	if k.c.Min > 0 || s.Workers == 0 || idle < k.c.Cooldown {
		return 0, false
	}
	k.why = "no trigger has been active"
	if !math.IsInf(float64(idle), 0) {
		k.why = fmt.Sprintf("no trigger has been active for %gs", float64(idle)/1000)
	}
	return 0, true
}
