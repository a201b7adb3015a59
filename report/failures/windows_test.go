package failures

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/slo"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// literalRequest is a request of both runs: its arrival, its times in each run, its tokens, and whether the run lost
// it.
type literalRequest struct {
	at                       float64
	ttft, tpot, calm, spaced float64
	tokens                   int
	lost                     bool
	class                    string
}

// drawRequests draws requests, in stretches with similar outcomes.
func drawRequests(r *rand.Rand) (all []literalRequest) {
	at := 0.0
	for range 3 + r.IntN(12) {
		slow, lost, tokens := r.IntN(4), r.IntN(6) == 0, 1+r.IntN(3)
		for range 1 + r.IntN(60) {
			q := literalRequest{at: at, calm: float64(15 + r.IntN(10)), spaced: float64(4 + r.IntN(3)), tokens: tokens, class: []string{"chat", "batch"}[r.IntN(2)]}
			q.ttft, q.tpot = q.calm+float64(r.IntN(1+6*slow)), q.spaced+float64(r.IntN(1+slow))
			q.lost = lost && r.IntN(20) == 0
			all = append(all, q)
			at += float64(r.IntN(30))
		}
		at += float64(r.IntN(2) * r.IntN(1500))
	}
	return all
}

// runRequests returns the result of a run of requests; calm selects the calm run.
func runRequests(all []literalRequest, calm bool) *harness.Result {
	c := collector.New(0)
	c.KeepOutcomes()
	for i, q := range all {
		id, end := sim.RequestID(i), sim.Time(q.at)
		c.Arrive(&sim.Request{ID: id, Session: int32(i), InputTokens: 10, OutputTokens: q.tokens}, end)
		if q.lost && !calm {
			c.GiveUp(id, collector.Lost, 0, 0)
			continue
		}
		ttft, tpot := sim.Time(q.ttft), sim.Time(q.tpot)
		if calm {
			ttft, tpot = sim.Time(q.calm), sim.Time(q.spaced)
		}
		for n := 1; n <= q.tokens; n++ {
			p := scheduler.Pass{Start: end, End: end + tpot, Count: 1, Gap: tpot}
			if n == 1 {
				p.End, p.Gap, p.Admitted = end+ttft, ttft, []scheduler.Admission{{Request: id}}
			}
			p.AddToken(id, n, q.tokens, end, false)
			c.Pass(&p)
			end = p.End
		}
	}
	return &harness.Result{Collector: c, Report: c.Report(0)}
}

// timeOf returns a time of a request in the run; ok is false if it has none.
func (q *literalRequest) timeOf(metric string) (ms float64, ok bool) {
	switch {
	case q.lost, metric == "tpot" && q.tokens < 2:
		return 0, false
	case metric == "ttft":
		return q.ttft, true
	case metric == "tpot":
		return q.tpot, true
	}
	return q.ttft + float64(q.tokens-1)*q.tpot, true
}

// literalMet reports whether a window meets the goal, by the text of docs/rules/harness.md "Windows of a study".
func literalMet(members []literalRequest, objectives []slo.Objective, share float64) bool {
	for _, q := range members {
		if q.lost {
			return false
		}
	}
	if len(objectives) == 0 {
		return literalNear(members, func(q *literalRequest) (float64, float64, bool) { return q.ttft, q.calm, true }) &&
			literalNear(members, func(q *literalRequest) (float64, float64, bool) { return q.tpot, q.spaced, q.tokens >= 2 })
	}
	for _, o := range objectives {
		if o.Statistic != "" && !literalHolds(members, &o) {
			return false
		}
		if o.Statistic == "" && (!literalShare(members, objectives, "", share) || !literalShare(members, objectives, o.Class, share)) {
			return false
		}
	}
	return true
}

// literalNear reports whether a mean is at most 1.25 times the mean in the calm run, plus 1 ms.
func literalNear(members []literalRequest, of func(*literalRequest) (ms, calm float64, ok bool)) bool {
	sum, calm, n := 0.0, 0.0, 0.0
	for i := range members {
		if x, y, ok := of(&members[i]); ok {
			sum, calm, n = sum+x, calm+y, n+1
		}
	}
	return n == 0 || sum/n <= 1.25*(calm/n)+1
}

// literalHolds reports whether a statistic is within its limit.
func literalHolds(members []literalRequest, o *slo.Objective) bool {
	var times []float64
	sum := 0.0
	for i := range members {
		if x, ok := members[i].timeOf(o.Metric); ok && (o.Class == "" || o.Class == members[i].class) {
			times, sum = append(times, x), sum+x
		}
	}
	if slices.Sort(times); len(times) == 0 {
		return true
	}
	percent := 50.0 // of a median
	switch o.Statistic {
	case "mean":
		return sum/float64(len(times)) <= o.LimitMS
	case "max":
		percent = 100
	case "median":
	default:
		percent, _ = strconv.ParseFloat(o.Statistic[1:], 64)
	}
	return times[int(math.Floor(float64(len(times)-1)*percent/100+0.5))] <= o.LimitMS
}

// literalShare reports whether enough requests of a class, or of all requests, meet the per-request objectives that
// apply to them.
func literalShare(members []literalRequest, objectives []slo.Objective, class string, share float64) bool {
	about, met := 0.0, 0.0
	for i := range members {
		q := &members[i]
		isAbout, isMet := false, true
		for _, o := range objectives {
			if o.Statistic == "" && (o.Class == "" || o.Class == q.class) {
				x, ok := q.timeOf(o.Metric)
				isAbout, isMet = true, isMet && !(ok && x > o.LimitMS)
			}
		}
		if isAbout && (class == "" || q.class == class) {
			if about++; isMet {
				met++
			}
		}
	}
	return met >= share*about
}

// literalMisses reports whether a request misses the goal, by the text of docs/rules/harness.md "Violations of an
// act".
func literalMisses(q *literalRequest, objectives []slo.Objective) bool {
	misses := q.lost
	for _, o := range objectives {
		x, ok := q.timeOf(o.Metric)
		misses = misses || ok && x > o.LimitMS && (o.Class == "" || o.Class == q.class)
	}
	if len(objectives) == 0 {
		misses = misses || q.ttft > 1.25*q.calm+1 || q.tokens >= 2 && q.tpot > 1.25*q.spaced+1
	}
	return misses
}

// In 500 random runs, windows and requests meet and miss the goal as the rules state. The runs have per-request
// objectives, statistics, objectives of classes, or no objectives.
func TestWindowsAreLiteral(t *testing.T) {
	goals := []string{"", "p90:ttft=26ms", "ttft=28ms,mean:tpot=6ms", "chat:p50:ttft=22ms", "chat:each:ttft=26ms,e2e=45ms", "max:e2e=50ms,batch:mean:ttft=24ms"}
	met, missed := 0, 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 5))
		all := drawRequests(r)
		goal := Goal{Share: []float64{1, 0.9, 0.5}[r.IntN(3)], ClassOf: func(session, _ int32) string { return all[session].class }}
		if text := goals[r.IntN(len(goals))]; text != "" {
			var err error
			if goal.Objectives, err = slo.Parse(text); err != nil {
				t.Fatal(err)
			}
		}
		with := runRequests(all, false)
		length, unit := 0.0, 1.0
		for length == 0 {
			for _, k := range []float64{1, 2, 5} {
				if length == 0 && 120*k*unit >= with.Report.DurationMS {
					length = k * unit
				}
			}
			unit *= 10
		}
		c := Compare(with, runRequests(all, true), goal)
		last := int(math.Floor(with.Report.DurationMS / length))
		if c.WindowMS != length || len(c.Windows) != last+1 {
			t.Fatalf("seed %d: %d windows of %v ms, the rules say %d of %v ms", seed, len(c.Windows), c.WindowMS, last+1, length)
		}
		for i, q := range c.Requests() {
			if want := literalMisses(&all[i], goal.Objectives); q.Missed != want {
				t.Fatalf("seed %d, request %d: missed %v, the rules say %v (%+v, goal %s)", seed, i, q.Missed, want, all[i], goal.OfEach())
			}
		}
		for k, w := range c.Windows {
			var members []literalRequest
			for _, q := range all {
				if from := float64(k) * length; q.at >= from && (q.at < from+length || k == last) {
					members = append(members, q)
				}
			}
			want := literalMet(members, goal.Objectives, goal.Share)
			if w.Requests != len(members) || w.Met != want {
				t.Fatalf("seed %d, window %d: %d requests, met %v; the rules say %d, %v (goal %s, share %v)", seed, k, w.Requests, w.Met, len(members), want, goal.String(), goal.Share)
			}
			if len(members) > 0 && want {
				met++
			} else if len(members) > 0 {
				missed++
			}
		}
	}
	if met < 2000 || missed < 2000 {
		t.Errorf("%d windows met and %d missed, must be at least 2000 of both", met, missed)
	}
}
