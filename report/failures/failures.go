// Package failures says what each event that went wrong in a replay cost: the requests
// and tokens that it took, how much later others had their answers, and how long it took
// until the goal was met again.
//
// Read failures.go (what is computed), then text.go (how it is told) and file.go.
package failures

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/slo"
	"github.com/replay-llm/replay/sim"
)

// Study is what the events of a replay cost.
type Study struct {
	WindowMS float64  `json:"window_ms"`
	Goal     string   `json:"goal"` // what is to be met again
	Events   []Event  `json:"events"`
	Windows  []Window `json:"windows"`
}

// Event is one of them.
type Event struct {
	Number int     `json:"number"` // from 1, in order of time
	AtMS   float64 `json:"at_ms"`
	What   string  `json:"what"`
	// Workers are those that it hit, of the entry pool and of the decode pool.
	Workers [2][]int `json:"workers"`

	Lost             int `json:"lost_requests"`
	Retried          int `json:"retries"`
	Migrated         int `json:"migrations"`
	LostTokens       int `json:"lost_tokens"`
	RecomputedTokens int `json:"recomputed_tokens"`

	// The rest is about requests that arrived, or were open, from the event until the goal
	// was met again, or until the next event.
	UntilMS  float64 `json:"until_ms"`
	Requests int     `json:"requests"`
	// Compared with the same requests of the replay without faults; of those that both answered.
	ExtraTTFT  float64 `json:"extra_ttft_ms"`  // mean
	ExtraE2E   float64 `json:"extra_e2e_ms"`   // mean
	WorstExtra float64 `json:"worst_extra_ms"` // of e2e
	Worst      int     `json:"worst_request"`  // whose that is; -1: nobody's

	Missed   bool `json:"missed"`    // the goal was missed in some window since
	MetAgain bool `json:"met_again"` // and met before the next event, or the end
	// AfterMS is the time from the event to the first of three windows in a row that met the
	// goal, or to where the search ends.
	AfterMS float64 `json:"after_ms"`
}

// Window is what came of the requests that arrived in a stretch of time.
type Window struct {
	FromMS   float64 `json:"from_ms"`
	Requests int     `json:"requests"`
	Lost     int     `json:"lost"`
	TTFT     float64 `json:"ttft_ms"` // means, with faults and without
	TPOT     float64 `json:"tpot_ms"`
	CalmTTFT float64 `json:"calm_ttft_ms"`
	CalmTPOT float64 `json:"calm_tpot_ms"`
	Met      bool    `json:"met"`
}

// Goal is what requests are to meet in each window.
type Goal struct {
	Objectives []slo.Objective
	Share      float64 // of requests that is to meet the objectives of single requests
}

// tolerance is how much slower than without faults requests may be, without objectives:
// another placement of a few requests makes as much of a difference. The goal is met again
// when it is met in steady windows in a row.
const (
	tolerance = 1.25
	steady    = 3
)

// String returns what is to be met, in words.
func (g *Goal) String() string {
	if len(g.Objectives) == 0 {
		return "mean TTFT and TPOT at most 25 % above those of the same requests without faults, and no request lost"
	}
	text := ""
	for i, o := range g.Objectives {
		if i > 0 {
			text += ", "
		}
		text += o.String()
	}
	return text + ", in each window, and no request lost"
}

// Judge returns what the events of a replay cost, beside the same replay without faults.
func Judge(with, calm *harness.Result, goal Goal) *Study {
	s := &Study{Goal: goal.String(), WindowMS: windowOf(with.Report.DurationMS)}
	p := pairUp(with.Collector, calm.Collector)
	s.fillWindows(p, goal, with.Report.DurationMS)
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
		s.findRecovery(&e, end, last)
		e.compare(p)
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

// windowOf returns how long windows are: a 120th of a replay, or a little more, as a
// round number of ms.
func windowOf(durationMS float64) float64 {
	for unit := 1.0; ; unit *= 10 {
		for _, k := range []float64{1, 2, 5} {
			if unit*k*120 >= durationMS {
				return unit * k
			}
		}
	}
}

// pair is a request with faults and without.
type pair struct {
	with, calm *collector.Record
	id         sim.RequestID
	how        collector.Outcome
}

// pairUp finds the same request of both replays, by session and turn.
func pairUp(with, calm *collector.Collector) []pair {
	type place struct{ session, turn int32 }
	twin := make(map[place]*collector.Record, calm.Len())
	for _, r := range calm.Requests() {
		twin[place{r.Session, r.Turn}] = r
	}
	all := make([]pair, 0, with.Len())
	for id, r := range with.Requests() {
		all = append(all, pair{with: r, calm: twin[place{r.Session, r.Turn}], id: id, how: with.OutcomeOf(id)})
	}
	return all
}

// bothAnswered reports whether there is something to compare.
func (p *pair) bothAnswered() bool { return p.calm != nil && p.with.Counted() && p.calm.Counted() }

// fillWindows judges the requests that arrived in each window.
func (s *Study) fillWindows(all []pair, goal Goal, durationMS float64) {
	s.Windows = make([]Window, 1+int(durationMS/s.WindowMS))
	members := make([][]*pair, len(s.Windows))
	for i := range all {
		k := min(int(float64(all[i].with.Arrival)/s.WindowMS), len(members)-1)
		members[k] = append(members[k], &all[i])
	}
	for k := range s.Windows {
		w := &s.Windows[k]
		w.FromMS = float64(k) * s.WindowMS
		w.fill(members[k])
		w.Met = w.Lost == 0 && w.meets(&goal, members[k])
	}
}

// fill takes the means of a window's requests that both replays answered.
func (w *Window) fill(members []*pair) {
	n, seconds := 0, 0
	for _, p := range members {
		w.Requests++
		if p.how == collector.Lost {
			w.Lost++
		}
		if !p.bothAnswered() {
			continue
		}
		n++
		w.TTFT += float64(p.with.TTFT())
		w.CalmTTFT += float64(p.calm.TTFT())
		if p.with.Tokens >= 2 && p.calm.Tokens >= 2 {
			seconds++
			w.TPOT += float64(p.with.TPOT())
			w.CalmTPOT += float64(p.calm.TPOT())
		}
	}
	w.TTFT, w.CalmTTFT = w.TTFT/float64(max(n, 1)), w.CalmTTFT/float64(max(n, 1))
	w.TPOT, w.CalmTPOT = w.TPOT/float64(max(seconds, 1)), w.CalmTPOT/float64(max(seconds, 1))
}

// meets reports whether a window's requests meet the goal.
func (w *Window) meets(goal *Goal, members []*pair) bool {
	if len(goal.Objectives) == 0 {
		const slack = 1.0 // ms, of what is next to nothing
		return w.TTFT <= float64(w.CalmTTFT*tolerance)+slack && w.TPOT <= float64(w.CalmTPOT*tolerance)+slack
	}
	met, counted := 0, 0
	for _, p := range members {
		counted++
		if goal.meetsSingle(p) {
			met++
		}
	}
	if float64(met) < goal.Share*float64(counted) {
		return false
	}
	for _, o := range goal.Objectives {
		if o.Statistic == "" {
			continue
		}
		var values []float64
		for _, p := range members {
			if v, ok := timeOf(o.Metric, p.with); ok {
				values = append(values, v)
			}
		}
		if len(values) > 0 && statisticOf(o.Statistic, values) > o.LimitMS {
			return false
		}
	}
	return true
}

// meetsSingle reports whether a request meets the objectives of single requests.
func (g *Goal) meetsSingle(p *pair) bool {
	for _, o := range g.Objectives {
		if o.Statistic != "" {
			continue
		}
		if p.how != collector.Completed {
			return false
		}
		if v, ok := timeOf(o.Metric, p.with); ok && v > o.LimitMS {
			return false
		}
	}
	return true
}

// timeOf returns a time of a request; itl is the mean of its own.
func timeOf(metric string, r *collector.Record) (float64, bool) {
	switch {
	case !r.Counted():
		return 0, false
	case metric == "ttft":
		return float64(r.TTFT()), true
	case metric == "e2e":
		return float64(r.E2E()), true
	case r.Tokens < 2:
		return 0, false
	case metric == "ttst":
		return float64(r.TTST()), true
	}
	return float64(r.TPOT()), true
}

// statisticOf returns a statistic of values, which it sorts.
func statisticOf(name string, values []float64) float64 {
	if name == "mean" {
		return collector.Describe(values).Mean
	}
	slices.Sort(values)
	percent := map[string]float64{"min": 0, "median": 50, "max": 100}[name]
	if p, ok := strings.CutPrefix(name, "p"); ok {
		percent, _ = strconv.ParseFloat(p, 64) // which slo has read
	}
	return values[min(len(values)-1, int(math.Round(float64(len(values)-1)*percent/100)))]
}

// findRecovery finds when the goal was met again after an event, before an end, which may
// be that of the replay.
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
	if !e.Missed { // what it did to those who were there
		e.MetAgain, e.UntilMS = false, min(end, s.Windows[from].FromMS+float64(steady*s.WindowMS))
		return
	}
	e.AfterMS = e.UntilMS - e.AtMS
}

// compare sets the requests of an event beside those of the replay without faults.
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
