// Package scaling reports the cost of each action of an autoscaler. The report covers the requests that arrived while
// added workers were starting, or after workers were removed. The report compares these requests with the same
// requests of a replay with the maximum number of workers from the start.
//
// Read scaling.go (the computed values), then text.go (the printed text) and file.go.
package scaling

import (
	"cmp"
	"fmt"
	"sort"

	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/failures"
	"github.com/replay-llm/replay/scheduler"
)

// Study holds the costs of the actions of the autoscalers of a replay.
type Study struct {
	Goal     string `json:"goal"`
	OfEach   string `json:"goal_of_each"`  // goal of a single request
	Versus   string `json:"compared_with"` // the replay that it is compared with
	Requests int    `json:"requests"`
	Missed   int    `json:"missed"` // of them: requests that missed the goal
	// MissedGrowing, MissedShrinking and MissedElse divide the missed requests: requests that arrived while workers
	// were starting, after workers had been removed, and at other times.
	MissedGrowing   int `json:"missed_growing"`
	MissedShrinking int `json:"missed_shrinking"`
	MissedElse      int `json:"missed_else"`

	Acts     []Act             `json:"acts"`
	Workers  []Size            `json:"workers"`
	WindowMS float64           `json:"window_ms"`
	Windows  []failures.Window `json:"windows"`
}

// Act is a change of the requested number of workers. An Act is responsible for the requests that arrived in its
// span, unless a later Act is.
type Act struct {
	Number int     `json:"number"` // from 1, in order of time
	Pool   string  `json:"pool,omitempty"`
	AtMS   float64 `json:"at_ms"`
	From   int     `json:"from"`
	To     int     `json:"to"`
	Why    string  `json:"why,omitempty"`
	// UntilMS is the end of the span. After an increase: the added workers are ready, or no longer requested. After a
	// decrease: the next action of the pool, or the end.
	UntilMS float64 `json:"until_ms"`
	Ready   bool    `json:"ready"` // the workers that it asked for were ready then

	Requests   int     `json:"requests"`
	Missed     int     `json:"missed"`
	ExtraTTFT  float64 `json:"extra_ttft_ms"` // mean, of requests that both replays answered
	ExtraE2E   float64 `json:"extra_e2e_ms"`
	WorstExtra float64 `json:"worst_extra_ms"` // of e2e
	Worst      int     `json:"worst_request"`  // request with this value; -1: none
}

// Size is the number of workers from a given time.
type Size struct {
	Pool     string  `json:"pool,omitempty"`
	AtMS     float64 `json:"at_ms"`
	Ready    int     `json:"ready"`
	Starting int     `json:"starting"`
	Leaving  int     `json:"leaving"`
}

// MostWanted returns the maximum requested number of workers of each pool with an autoscaler.
func MostWanted(all []*harness.Scaling) map[scheduler.Role]int {
	most := map[scheduler.Role]int{}
	for _, s := range all {
		n := s.Sizes[0].Ready + s.Sizes[0].Starting
		for _, a := range s.Acts {
			n = max(n, a.To)
		}
		most[s.Stage] = n
	}
	return most
}

// Judge returns the costs of the actions of a replay, compared with a replay with the maximum number of workers from
// the start. Without such a replay Judge returns only the actions.
func Judge(with, calm *harness.Result, goal failures.Goal) *Study {
	s := &Study{Acts: []Act{}, Workers: []Size{}}
	for _, x := range with.Scaling {
		s.addPool(x)
	}
	sort.SliceStable(s.Acts, func(i, j int) bool { return cmp.Compare(s.Acts[i].AtMS, s.Acts[j].AtMS) < 0 })
	for i := range s.Acts {
		s.Acts[i].Number = i + 1
	}
	if calm == nil {
		return s
	}
	s.Versus = "with " + nameMost(with.Scaling) + " all along"
	if faults := len(with.Incidents) - harness.CountKills(with.Scaling); faults > 0 {
		s.Versus += " and no faults"
	}
	goal.Versus = s.Versus
	c := failures.Compare(with, calm, goal)
	s.Goal, s.OfEach, s.WindowMS, s.Windows = goal.String(), goal.OfEach(), c.WindowMS, c.Windows
	s.addRequests(c.Requests())
	return s
}

// nameMost describes the maximum requested numbers of workers.
func nameMost(all []*harness.Scaling) string {
	most, text := MostWanted(all), ""
	for i, s := range all {
		if i > 0 {
			text += " and "
		}
		if text += fmt.Sprint(most[s.Stage]); s.Stage != scheduler.Aggregated {
			text += " " + s.Stage.String()
		}
	}
	if text == "1" {
		return "1 worker"
	}
	return text + " workers"
}

// addPool adds the actions of the autoscaler of a pool.
func (s *Study) addPool(x *harness.Scaling) {
	pool := x.Stage.String()
	if x.Stage == scheduler.Aggregated {
		pool = ""
	}
	for i, a := range x.Acts {
		act := Act{Pool: pool, AtMS: float64(a.At), From: a.From, To: a.To, Why: a.Why, Worst: -1, UntilMS: max(float64(x.End), float64(a.At))}
		if a.Given {
			act.Why = "--scale"
		}
		for _, next := range x.Acts[i+1:] {
			if a.To < a.From || next.To < a.To {
				act.UntilMS = float64(next.At)
				break
			}
		}
		for _, z := range x.Sizes {
			if a.To > a.From && z.At >= a.At && float64(z.At) <= act.UntilMS && z.Ready >= a.To {
				act.UntilMS, act.Ready = float64(z.At), true
				break
			}
		}
		s.Acts = append(s.Acts, act)
	}
	for _, z := range x.Sizes {
		s.Workers = append(s.Workers, Size{pool, float64(z.At), z.Ready, z.Starting, z.Leaving})
	}
}

// addRequests assigns each request to the latest action with the arrival in its span.
func (s *Study) addRequests(all []failures.Request) {
	both := make([]int, len(s.Acts))
	for i := range all {
		r := &all[i]
		s.Requests++
		if r.Missed {
			s.Missed++
		}
		k := s.actOf(float64(r.Arrival))
		if k < 0 {
			if r.Missed {
				s.MissedElse++
			}
			continue
		}
		a := &s.Acts[k]
		a.addRequest(r)
		if r.Both {
			both[k]++
		}
	}
	for i := range s.Acts {
		a := &s.Acts[i]
		a.ExtraTTFT /= float64(max(both[i], 1))
		a.ExtraE2E /= float64(max(both[i], 1))
		if a.To > a.From {
			s.MissedGrowing += a.Missed
		} else {
			s.MissedShrinking += a.Missed
		}
	}
}

// actOf returns the latest action that begins at or before a time and has it in its span, -1 if there is none.
func (s *Study) actOf(at float64) int {
	for i := len(s.Acts) - 1; i >= 0; i-- {
		if a := &s.Acts[i]; a.AtMS <= at && at < a.UntilMS {
			return i
		}
	}
	return -1
}

func (a *Act) addRequest(r *failures.Request) {
	a.Requests++
	if r.Missed {
		a.Missed++
	}
	if !r.Both {
		return
	}
	a.ExtraTTFT += r.ExtraTTFT
	a.ExtraE2E += r.ExtraE2E
	if r.ExtraE2E > a.WorstExtra {
		a.WorstExtra, a.Worst = r.ExtraE2E, r.ID
	}
}
