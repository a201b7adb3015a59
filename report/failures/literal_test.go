package failures

import (
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/slo"
	"github.com/replay-llm/replay/sim"
)

// literalRecovery returns the time at which the goal was met again after an event, by the text of
// docs/rules/harness.md "Windows of a study": with the first of three consecutive windows that meet it. Windows
// without requests do not count. The search begins with the window of the event and ends with the next event. If the
// search ends with the run, the last one or two windows suffice. missed reports whether a window missed the goal.
func literalRecovery(windows []Window, windowMS, at, end float64, last bool) (missed, again bool, when float64) {
	var met []bool
	var from []float64
	for k, w := range windows {
		isOver := w.FromMS+windowMS <= at && k < len(windows)-1 // the last one holds all that came later
		if isOver || w.FromMS >= end || w.Requests == 0 {
			continue
		}
		met, from = append(met, w.Met), append(from, w.FromMS)
	}
	for i := range met {
		row := 0
		for row < 3 && i+row < len(met) && met[i+row] {
			row++
		}
		if row == 3 || last && row > 0 && i+row == len(met) {
			return missed, true, max(at, from[i])
		}
		missed = missed || !met[i]
	}
	return missed, false, end
}

// In 500 random runs with up to three events, recoveries are found as the rule states.
func TestRecoveryIsLiteral(t *testing.T) {
	objectives, err := slo.Parse("p99:ttft=30ms")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		var phases []phase
		total := 0
		for range 3 + r.IntN(20) {
			s := phase{1 + r.IntN(120), []sim.Time{20, 20, 20, 40, 28, -1}[r.IntN(6)]}
			phases, total = append(phases, s), total+s.requests
		}
		with, calm := play(phases...), play(phase{total, 20})
		for at, n := sim.Time(r.IntN(10*total)), 1+r.IntN(3); n > 0 && at < sim.Time(10*total); n-- {
			with.Incidents = append(with.Incidents, harness.Incident{At: at, What: "worker 1 dies"})
			at += sim.Time(r.IntN(5 * total))
		}
		goal := Goal{}
		if r.IntN(2) == 0 {
			goal = Goal{Objectives: objectives, Share: 1}
		}
		s := Judge(with, calm, goal)
		for i, e := range s.Events {
			end, last := max(with.Report.DurationMS, e.AtMS), true
			for _, next := range with.Incidents[i+1:] {
				if last && float64(next.At) > e.AtMS {
					end, last = float64(next.At), false
				}
			}
			missed, again, when := literalRecovery(s.Windows, s.WindowMS, e.AtMS, end, last)
			again = again && missed // what was never missed was not met again
			if e.Missed != missed || e.MetAgain != again || missed && again && e.AfterMS != min(end, when)-e.AtMS {
				t.Fatalf("seed %d, event %d: missed %v, met again %v after %v; the rule says %v, %v after %v", seed, i+1, e.Missed, e.MetAgain, e.AfterMS, missed, again, when-e.AtMS)
			}
		}
	}
}
