// Package failures reports the cost of each fault in a replay: the lost requests and tokens, the delay of other
// answers, and the time until the goal was met again.
//
// Read failures.go (the computed values), compare.go (the comparison with a replay without faults), then text.go (the
// printed text) and file.go.
package failures

import (
	"math"

	"github.com/replay-llm/replay/replay/harness"
)

// Study holds the costs of the fault events of a replay.
type Study struct {
	WindowMS float64  `json:"window_ms"`
	Goal     string   `json:"goal"` // what is to be met again
	Events   []Event  `json:"events"`
	Windows  []Window `json:"windows"`
}

// Event is a fault event and its cost.
type Event struct {
	Number int     `json:"number"` // from 1, in order of time
	AtMS   float64 `json:"at_ms"`
	What   string  `json:"what"`
	// Workers are the affected workers, of the entry pool and of the decode pool.
	Workers [2][]int `json:"workers"`

	Lost             int `json:"lost_requests"`
	Retried          int `json:"retries"`
	Migrated         int `json:"migrations"`
	LostTokens       int `json:"lost_tokens"`
	RecomputedTokens int `json:"recomputed_tokens"`

	// The fields from here on are about requests that arrived or were in flight from the event until UntilMS: the
	// time at which the goal was met again, or the next event.
	UntilMS  float64 `json:"until_ms"`
	Requests int     `json:"requests"`
	// ExtraTTFT and the fields after it compare with the replay without faults, for requests that both replays
	// answered.
	ExtraTTFT  float64 `json:"extra_ttft_ms"`  // mean
	ExtraE2E   float64 `json:"extra_e2e_ms"`   // mean
	WorstExtra float64 `json:"worst_extra_ms"` // of e2e
	Worst      int     `json:"worst_request"`  // request with this value; -1: none

	Later    int  `json:"later_requests"` // that arrived after it, before the next event
	Missed   bool `json:"missed"`         // a window since the event missed the goal
	MetAgain bool `json:"met_again"`      // a later window met it, before the next event or the end
	// AfterMS is the time from the event to the first of three consecutive windows that met the goal, or to the end
	// of the search.
	AfterMS float64 `json:"after_ms"`
}

// Judge returns the costs of the events of a replay, compared with the same replay without faults.
func Judge(with, calm *harness.Result, goal Goal) *Study {
	goal.Versus = "without faults"
	c := Compare(with, calm, goal)
	s := &Study{Goal: goal.String(), WindowMS: c.WindowMS, Windows: c.Windows}
	for i, x := range with.Incidents {
		end := math.Max(with.Report.DurationMS, float64(x.At))
		last := true
		for _, next := range with.Incidents[i+1:] {
			if next.At > x.At {
				end, last = float64(next.At), false
				break
			}
		}
		e := newEvent(i, &x)
		for k := range c.pairs {
			if at := float64(c.pairs[k].with.Arrival); at > e.AtMS && at < end {
				e.Later++
			}
		}
		s.findRecovery(&e, end, last)
		e.compare(c.pairs)
		s.Events = append(s.Events, e)
	}
	return s
}

func newEvent(i int, x *harness.Incident) Event {
	e := Event{
		Number: i + 1, AtMS: float64(x.At), What: x.What, Lost: x.Lost, Retried: x.Retried, Migrated: x.Migrated,
		LostTokens: x.LostTokens, RecomputedTokens: x.Recomputed, Worst: -1,
	}
	for k := range x.Workers {
		e.Workers[k] = []int{}
		for _, id := range x.Workers[k] {
			e.Workers[k] = append(e.Workers[k], int(id))
		}
	}
	return e
}

// findRecovery finds the time at which the goal was met again after an event and before end, which may be the end of
// the replay.
func (s *Study) findRecovery(e *Event, end float64, last bool) {
	from := min(int(e.AtMS/s.WindowMS), len(s.Windows)-1)
	to := min(int(math.Ceil(end/s.WindowMS)), len(s.Windows))
	e.UntilMS = end
	row, since := 0, 0.0 // windows that met it, and from when on
	for k := from; k < to && row < steady; k++ {
		switch w := &s.Windows[k]; {
		case w.Requests == 0:
		case !w.Met:
			e.Missed, row = true, 0
		default:
			if row++; row == 1 {
				since = w.FromMS
			}
		}
	}
	if row == steady || row > 0 && last {
		e.MetAgain, e.UntilMS = true, min(end, max(e.AtMS, since))
	}
	if !e.Missed { // the fault affected only requests in flight
		e.MetAgain, e.UntilMS = false, min(end, s.Windows[from].FromMS+float64(steady*s.WindowMS))
		return
	}
	e.AfterMS = e.UntilMS - e.AtMS
}

// compare compares the requests of an event with those of the replay without faults.
func (e *Event) compare(all []pair) {
	n := 0
	for i := range all {
		p := &all[i]
		if float64(p.with.Arrival) >= e.UntilMS || p.with.Tokens > 0 && float64(p.with.Last) < e.AtMS {
			continue
		}
		e.Requests++
		if !p.bothAnswered() {
			continue
		}
		n++
		e.ExtraTTFT += float64(p.with.TTFT() - p.calm.TTFT())
		extra := float64(p.with.E2E() - p.calm.E2E())
		e.ExtraE2E += extra
		if extra > e.WorstExtra {
			e.WorstExtra, e.Worst = extra, int(p.id)
		}
	}
	e.ExtraTTFT /= float64(max(n, 1))
	e.ExtraE2E /= float64(max(n, 1))
}
