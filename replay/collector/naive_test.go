package collector_test

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// naive is a literal implementation of the definition of a report: it keeps the time of every token.
type naive struct {
	records []naiveRecord
}

type naiveRecord struct {
	arrival float64
	admit   []float64
	reused  int
	in, out int
	tokens  []float64
}

func (n *naive) counted() []naiveRecord {
	return slices.DeleteFunc(slices.Clone(n.records), func(r naiveRecord) bool {
		return len(r.admit) == 0 || len(r.tokens) == 0
	})
}

func (n *naive) report() *collector.Report {
	r := &collector.Report{Requests: len(n.records)}
	var ttft, ttst, tpot, itl, e2e, rate []float64
	reused := 0
	for _, rec := range n.counted() {
		t := rec.tokens
		m := len(t)
		r.Completed++
		r.InputTokens += rec.in
		r.OutputTokens += rec.out
		reused += rec.reused
		r.DurationMS = max(r.DurationMS, t[m-1])
		ttft = append(ttft, max(t[0]-rec.arrival, 0))
		e2e = append(e2e, max(t[m-1]-rec.arrival, 0))
		if m < 2 {
			continue
		}
		ttst = append(ttst, max(t[1]-t[0], 0))
		tpot = append(tpot, max(t[m-1]-t[0], 0)/float64(m-1))
		for i := range m - 1 {
			gap := max(t[i+1]-t[i], 0)
			itl = append(itl, gap)
			if gap > 0 {
				rate = append(rate, 1000.0/gap)
			}
		}
	}
	r.ProcessedTokens = r.InputTokens + r.OutputTokens
	s := max(r.DurationMS/1000, 1e-9)
	r.RequestsPerS = float64(r.Completed) / s
	r.InputTokensPerS = float64(r.InputTokens) / s
	r.OutputTokensPerS = float64(r.OutputTokens) / s
	r.TotalTokensPerS = float64(r.ProcessedTokens) / s
	if r.InputTokens > 0 {
		r.PrefixCacheReusedRatio = float64(reused) / float64(r.InputTokens)
	}
	r.TTFT, r.TTST, r.TPOT = describe(ttft), describe(ttst), describe(tpot)
	r.ITL, r.E2E, r.UserThroughput = describe(itl), describe(e2e), describe(rate)
	return r
}

func describe(v []float64) (d collector.Distribution) {
	if len(v) == 0 {
		return d
	}
	n := float64(len(v))
	for _, x := range v {
		d.Mean += x
	}
	d.Mean /= n
	for _, x := range v {
		d.Std += float64((x - d.Mean) * (x - d.Mean))
	}
	d.Std = math.Sqrt(d.Std / n)
	v = slices.Sorted(slices.Values(v))
	at := func(p float64) float64 { return v[min(len(v)-1, int(math.Round((n-1)*p/100)))] }
	d.Min, d.Max = v[0], v[len(v)-1]
	d.Median, d.P75, d.P90, d.P95, d.P99 = at(50), at(75), at(90), at(95), at(99)
	return d
}

// pass gives every request of the pass its tokens.
func (n *naive) pass(p *scheduler.Pass, gained []sim.RequestID) {
	for _, a := range p.Admitted {
		r := &n.records[a.Request]
		r.admit = append(r.admit, float64(p.Start))
		r.reused = max(r.reused, a.Reused)
	}
	for i := range p.Count {
		end := float64(p.Start) + float64(float64(i+1)*float64(p.Gap))
		for _, id := range gained {
			n.records[id].tokens = append(n.records[id].tokens, end)
		}
	}
}
