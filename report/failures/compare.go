package failures

import (
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/slo"
	"github.com/replay-llm/replay/sim"
)

// Comparison compares a replay with a calm replay of the same requests, without the events that are studied.
type Comparison struct {
	WindowMS float64
	Windows  []Window
	goal     Goal
	pairs    []pair
}

// Compare compares the replay with its calm replay.
func Compare(with, calm *harness.Result, goal Goal) *Comparison {
	c := &Comparison{WindowMS: windowOf(with.Report.DurationMS), goal: goal, pairs: pairUp(with.Collector, calm.Collector, goal.ClassOf)}
	c.fillWindows(goal, with.Report.DurationMS)
	return c
}

// Request is the outcome of a request, compared with the calm replay.
type Request struct {
	ID      int
	Arrival sim.Time
	Missed  bool // it missed the goal alone
	Both    bool // both replays answered it
	// ExtraTTFT and ExtraE2E are the delays compared with the calm replay in ms, if both replays answered the
	// request.
	ExtraTTFT, ExtraE2E float64
}

// Requests returns the outcome of each request. A request misses the goal if it was lost, or if a time exceeds the
// limit of an objective. Without objectives it misses if its TTFT or TPOT is more than 25 % above that in the calm
// replay.
func (c *Comparison) Requests() []Request {
	all := make([]Request, len(c.pairs))
	for i := range c.pairs {
		p := &c.pairs[i]
		r := &all[i]
		r.ID, r.Arrival, r.Both = int(p.id), p.with.Arrival, p.bothAnswered()
		r.Missed = p.how != collector.Completed
		if r.Both {
			r.ExtraTTFT, r.ExtraE2E = float64(p.with.TTFT()-p.calm.TTFT()), float64(p.with.E2E()-p.calm.E2E())
		}
		for _, o := range c.goal.Objectives {
			if !p.isHeldTo(&o) {
				continue
			}
			v, ok := timeOf(o.Metric, p.with)
			r.Missed = r.Missed || ok && v > o.LimitMS
		}
		if len(c.goal.Objectives) == 0 && r.Both {
			r.Missed = r.Missed || !isNear(float64(p.with.TTFT()), float64(p.calm.TTFT())) ||
				p.with.Tokens >= 2 && p.calm.Tokens >= 2 && !isNear(float64(p.with.TPOT()), float64(p.calm.TPOT()))
		}
	}
	return all
}

// isNear reports whether a time is at most 25 % above the time in the calm replay, plus 1 ms.
func isNear(ms, calm float64) bool {
	const slack = 1.0 // ms
	return ms <= float64(calm*tolerance)+slack
}

// Window is the result of the requests that arrived in a time window.
type Window struct {
	FromMS   float64 `json:"from_ms"`
	Requests int     `json:"requests"`
	Lost     int     `json:"lost"`
	TTFT     float64 `json:"ttft_ms"` // means, of the replay and of the other
	TPOT     float64 `json:"tpot_ms"`
	CalmTTFT float64 `json:"calm_ttft_ms"`
	CalmTPOT float64 `json:"calm_tpot_ms"`
	Met      bool    `json:"met"`
}

// Goal is the goal for the requests of each window.
type Goal struct {
	Objectives []slo.Objective
	Share      float64 // of requests that is to meet the objectives of single requests
	Versus     string  // name of the calm replay, such as "without faults"
	// ClassOf returns the class of a turn of a session; nil if there are no classes.
	ClassOf func(session, turn int32) string
}

// Without objectives, tolerance is the accepted factor of latencies compared with the calm replay: small changes of
// routing cause similar differences. The goal is met again if steady consecutive windows meet it.
const (
	tolerance = 1.25
	steady    = 3
)

// String returns the goal in words.
func (g *Goal) String() string {
	if len(g.Objectives) == 0 {
		return "mean TTFT and TPOT at most 25 % above those of the same requests " + g.Versus + ", and no request lost"
	}
	return g.listObjectives() + ", in each window, and no request lost"
}

// OfEach returns the goal of a single request in words, see Comparison.Requests.
func (g *Goal) OfEach() string {
	if len(g.Objectives) == 0 {
		return "TTFT and TPOT at most 25 % (and 1 ms) above its own " + g.Versus
	}
	return "its own times within the limits of " + g.listObjectives()
}

func (g *Goal) listObjectives() string {
	all := make([]string, len(g.Objectives))
	for i, o := range g.Objectives {
		all[i] = o.String()
	}
	return strings.Join(all, ", ")
}

// windowOf returns the length of windows: at least 1/120 of the replay, as a round number of ms.
func windowOf(durationMS float64) float64 {
	for unit := 1.0; ; unit *= 10 {
		for _, k := range []float64{1, 2, 5} {
			if unit*k*120 >= durationMS {
				return unit * k
			}
		}
	}
}

// pair is a request in both replays.
type pair struct {
	with, calm *collector.Record
	id         sim.RequestID
	how        collector.Outcome
	class      string
}

// isHeldTo reports whether an objective applies to a request.
func (p *pair) isHeldTo(o *slo.Objective) bool { return o.Class == "" || o.Class == p.class }

// pairUp finds the same request in both replays, by session and turn.
func pairUp(with, calm *collector.Collector, classOf func(session, turn int32) string) []pair {
	type place struct{ session, turn int32 }
	twin := make(map[place]*collector.Record, calm.Len())
	for _, r := range calm.Requests() {
		twin[place{r.Session, r.Turn}] = r
	}
	all := make([]pair, 0, with.Len())
	for id, r := range with.Requests() {
		p := pair{with: r, calm: twin[place{r.Session, r.Turn}], id: id, how: with.OutcomeOf(id)}
		if classOf != nil {
			p.class = classOf(r.Session, r.Turn)
		}
		all = append(all, p)
	}
	return all
}

// bothAnswered reports whether both replays answered the request.
func (p *pair) bothAnswered() bool { return p.calm != nil && p.with.Counted() && p.calm.Counted() }

// fillWindows judges the requests that arrived in each window.
func (s *Comparison) fillWindows(goal Goal, durationMS float64) {
	s.Windows = make([]Window, 1+int(durationMS/s.WindowMS))
	members := make([][]*pair, len(s.Windows))
	for i := range s.pairs {
		p := &s.pairs[i]
		k := min(int(float64(p.with.Arrival)/s.WindowMS), len(members)-1)
		members[k] = append(members[k], p)
	}
	for k := range s.Windows {
		w := &s.Windows[k]
		w.FromMS = float64(k) * s.WindowMS
		w.fill(members[k])
		w.Met = w.Lost == 0 && w.meets(&goal, members[k])
	}
}

// fill sets the means over the requests of a window that both replays answered.
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
		return isNear(w.TTFT, w.CalmTTFT) && isNear(w.TPOT, w.CalmTPOT)
	}
	if !goal.isMetBySingle(members) {
		return false
	}
	for _, o := range goal.Objectives {
		if o.Statistic == "" {
			continue
		}
		var values []float64
		for _, p := range members {
			if v, ok := timeOf(o.Metric, p.with); ok && p.isHeldTo(&o) {
				values = append(values, v)
			}
		}
		if len(values) > 0 && statisticOf(o.Statistic, values) > o.LimitMS {
			return false
		}
	}
	return true
}

// isMetBySingle reports whether enough requests meet the per-request objectives: of all requests with such
// objectives, and of each class with separate objectives.
func (g *Goal) isMetBySingle(members []*pair) bool {
	for _, o := range g.Objectives {
		if o.Statistic != "" {
			continue
		}
		held, met := g.countSingle(members, func(p *pair) bool {
			return slices.ContainsFunc(g.Objectives, func(o slo.Objective) bool { return o.Statistic == "" && p.isHeldTo(&o) })
		})
		if float64(met) < g.Share*float64(held) {
			return false
		}
		held, met = g.countSingle(members, func(p *pair) bool { return o.Class != "" && p.class == o.Class })
		if float64(met) < g.Share*float64(held) {
			return false
		}
	}
	return true
}

// countSingle counts the requests for which isOf is true, and the requests of these that meet the per-request
// objectives.
func (g *Goal) countSingle(members []*pair, isOf func(*pair) bool) (all, met int) {
	for _, p := range members {
		if !isOf(p) {
			continue
		}
		if all++; g.meetsSingle(p) {
			met++
		}
	}
	return all, met
}

// meetsSingle reports whether a request meets its per-request objectives.
func (g *Goal) meetsSingle(p *pair) bool {
	for _, o := range g.Objectives {
		if o.Statistic != "" || !p.isHeldTo(&o) {
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

// timeOf returns a time of a request; for itl it is the mean of its gaps.
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

// statisticOf returns a statistic of values. It sorts the values.
func statisticOf(name string, values []float64) float64 {
	if name == "mean" {
		return collector.Describe(values).Mean
	}
	slices.Sort(values)
	percent := map[string]float64{"min": 0, "median": 50, "max": 100}[name]
	if p, ok := strings.CutPrefix(name, "p"); ok {
		percent, _ = strconv.ParseFloat(p, 64) // slo has checked the syntax
	}
	return values[collector.NearestRank(int64(len(values)), percent)]
}
