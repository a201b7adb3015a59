package scaling

import (
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/failures"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// drawScaling draws the actions of an autoscaler within 10 s. The workers that an action adds become ready later.
func drawScaling(r *rand.Rand) *harness.Scaling {
	s := harness.NewScaling(scheduler.Aggregated)
	s.End = 10_000
	wanted, ready := 1+r.IntN(3), 0
	ready = wanted
	s.SetSize(harness.PoolSize{At: 0, Ready: ready})
	for at := sim.Time(r.IntN(2_000)); at < 9_500; at += sim.Time(100 + r.IntN(2_000)) {
		if r.IntN(3) == 0 && ready < wanted { // some become ready
			ready += 1 + r.IntN(wanted-ready)
		} else {
			to := 1 + r.IntN(6)
			if to == wanted {
				continue
			}
			s.Acts = append(s.Acts, harness.ScalingAct{At: at, From: wanted, To: to})
			wanted, ready = to, min(ready, to)
		}
		s.SetSize(harness.PoolSize{At: at, Ready: ready, Starting: wanted - ready})
	}
	return s
}

// literalAct returns the action that is responsible for a request with this arrival time (docs/rules/harness.md
// "Violations of an act"): the latest action with the time in its span. -1: none.
func literalAct(s *harness.Scaling, at sim.Time) int {
	found := -1
	for i, a := range s.Acts {
		until := s.End
		if a.To < a.From {
			if i+1 < len(s.Acts) {
				until = s.Acts[i+1].At
			}
		} else {
			for _, b := range s.Acts[i+1:] {
				if b.To < a.To && b.At < until {
					until = b.At
				}
			}
			for _, z := range s.Sizes {
				if z.Ready >= a.To && z.At >= a.At && z.At < until {
					until = z.At
				}
			}
		}
		if a.At <= at && at < until {
			found = i
		}
	}
	return found
}

// In 500 random runs, each missed request belongs to the action that the rule states.
func TestActsAreLiteral(t *testing.T) {
	calm := play(1000)
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		var slow [][2]sim.Time
		for range 1 + r.IntN(4) {
			from := sim.Time(r.IntN(9_000))
			slow = append(slow, [2]sim.Time{from, from + sim.Time(r.IntN(2_000))})
		}
		with := play(1000, slow...)
		with.Scaling = append(with.Scaling, drawScaling(r))
		got := Judge(with, calm, failures.Goal{})
		requests, missed := make([]int, len(got.Acts)), make([]int, len(got.Acts))
		elsewhere := 0
		for i := range 1000 {
			at := sim.Time(10 * i)
			isSlow := false
			for _, s := range slow {
				isSlow = isSlow || at >= s[0] && at < s[1]
			}
			switch k := literalAct(with.Scaling[0], at); {
			case k < 0 && isSlow:
				elsewhere++
			case k >= 0:
				requests[k]++
				if isSlow {
					missed[k]++
				}
			}
		}
		for k, a := range got.Acts {
			if a.Requests != requests[k] || a.Missed != missed[k] {
				t.Fatalf("seed %d: act %d has %d requests, of which %d missed; the rule gives %d and %d", seed, k+1, a.Requests, a.Missed, requests[k], missed[k])
			}
		}
		if got.MissedElse != elsewhere {
			t.Fatalf("seed %d: %d missed at other times, the rule gives %d", seed, got.MissedElse, elsewhere)
		}
	}
}
