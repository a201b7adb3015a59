package calibrate

import (
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
)

// Side is one number of a run together with the number of its replay: a time in s, a share of 1, or a count.
type Side struct {
	Count     bool     `json:"count,omitempty"`
	Name      string   `json:"name"`
	Measured  float64  `json:"measured"`
	Simulated float64  `json:"simulated"`
	Noise     *[2]Rate `json:"noise,omitempty"` // least and greatest deviation of repeats of the run; nil: no repeats
}

// Rate is the deviation of a number: relative, or the difference for a share.
type Rate float64

// IsShare reports whether the number is a share of 1 and not a time.
func (s *Side) IsShare() bool {
	return s.Name == hitRateName || len(s.Name) > 5 && s.Name[:5] == "share"
}

// Off returns the deviation of the simulated number.
func (s *Side) Off() Rate { return s.rateOf(s.Simulated) }

func (s *Side) rateOf(value float64) Rate {
	if s.IsShare() {
		return Rate(value - s.Measured)
	}
	return Rate(value/s.Measured - 1)
}

// hitRateName is the name of the share of prompt tokens that were in the cache.
const hitRateName = "hit rate"

// Both is one request as measured and as simulated. Times are in s, and NaN if the request has no such time.
type Both struct {
	ID                        string
	Server                    string // "": unknown
	Worker                    int
	Arrival                   float64
	TTFT, TPOT, E2E           [2]float64 // measured, then simulated
	Cached                    [2]int     // measured, then simulated; -1: unknown
	InputTokens, OutputTokens int
}

// Compared holds the numbers of a run and of its replay.
type Compared struct {
	Sides    []Side
	Requests []Both // by arrival
}

// Compare compares a replay of the whole run, by its trace, with the measured values and with repeats of the run.
func (m *Measured) Compare(result *harness.Result, repeats []*Measured) (*Compared, error) {
	out, err := m.outcomeOf(result)
	if err != nil {
		return nil, err
	}
	all, records := m.judged(), m.recordsOf(result)
	c := &Compared{}
	t := newTarget(m, all)
	for j, i := range all {
		r, x := &m.Requests[i], &records[i]
		b := Both{
			ID: string(r.ID), Server: r.Server, Worker: int(x.Worker), Arrival: r.Arrival,
			Cached: [2]int{-1, int(x.Reused)}, InputTokens: r.Input, OutputTokens: r.Output,
		}
		if r.Cached != nil {
			b.Cached[0] = *r.Cached
		}
		for k, to := range []*[2]float64{&b.TTFT, &b.TPOT, &b.E2E} {
			*to = [2]float64{t.measured[k][j], t.metrics[k].valueOf(t.requestIn(out, j)) + partOfWay(&out.Way, k, r.Output)}
		}
		c.Requests = append(c.Requests, b)
	}
	c.addTimes(m, &result.Report.ITL)
	c.addHits()
	c.addShares()
	if err := c.addCounted(m, result); err != nil {
		return nil, err
	}
	c.addPods(m.Pods, records)
	c.addNoise(repeats)
	return c, nil
}

// judged returns all requests of the run except its warm-up.
func (m *Measured) judged() []int {
	parts, _ := splitParts(m, 0)
	return parts[0].chosen
}

// listStatistics returns the statistics of a time with their names.
func listStatistics() []struct {
	name string
	of   func([]float64) float64
} {
	quantile := func(q float64) func([]float64) float64 {
		return func(values []float64) float64 { return measured.QuantileOf(values, q) }
	}
	return []struct {
		name string
		of   func([]float64) float64
	}{{"mean", measured.MeanOf}, {"p50", quantile(0.5)}, {"p90", quantile(0.9)}, {"p99", quantile(0.99)}}
}

// addTimes adds the statistics of all times except times that were not measured.
func (c *Compared) addTimes(m *Measured, itl *collector.Distribution) {
	column := func(at int, of func(*Both) *[2]float64) (values []float64) {
		for i := range c.Requests {
			values = append(values, of(&c.Requests[i])[at])
		}
		return values
	}
	for _, x := range []struct {
		name string
		of   func(*Both) *[2]float64
	}{
		{"TTFT", func(b *Both) *[2]float64 { return &b.TTFT }},
		{"TPOT", func(b *Both) *[2]float64 { return &b.TPOT }},
		{"ITL", nil},
		{"E2E", func(b *Both) *[2]float64 { return &b.E2E }},
	} {
		for k, s := range listStatistics() {
			side := Side{Name: x.name + " " + s.name}
			if x.of == nil {
				side.Measured = s.of(m.allGaps())
				side.Simulated = [4]float64{itl.Mean, itl.Median, itl.P90, itl.P99}[k] / 1000
			} else {
				side.Measured, side.Simulated = s.of(column(0, x.of)), s.of(column(1, x.of))
			}
			if !math.IsNaN(side.Measured) && !math.IsNaN(side.Simulated) {
				c.Sides = append(c.Sides, side)
			}
		}
	}
}

// allGaps returns the gaps between tokens, of all requests together.
func (m *Measured) allGaps() (gaps []float64) {
	for _, i := range m.judged() {
		gaps = append(gaps, m.Requests[i].Gaps...)
	}
	return gaps
}

// addHits adds the share of prompt tokens that were in the cache. Only requests with this number from the server
// count.
func (c *Compared) addHits() {
	var found [2]int
	tokens := 0
	for i := range c.Requests {
		if b := &c.Requests[i]; b.Cached[0] >= 0 {
			found[0], found[1], tokens = found[0]+b.Cached[0], found[1]+b.Cached[1], tokens+b.InputTokens
		}
	}
	if tokens > 0 {
		c.Sides = append(c.Sides, Side{Name: hitRateName, Measured: float64(found[0]) / float64(tokens), Simulated: float64(found[1]) / float64(tokens)})
	}
}

// addShares adds the share of requests that each server processed, if known. Servers and workers are in the order of
// their first requests.
func (c *Compared) addShares() {
	var servers []string
	var workers []int
	took, simulated := map[string]int{}, map[int]int{}
	for i := range c.Requests {
		b := &c.Requests[i]
		if b.Server == "" {
			return
		}
		if took[b.Server]++; took[b.Server] == 1 {
			servers = append(servers, b.Server)
		}
		if simulated[b.Worker]++; simulated[b.Worker] == 1 {
			workers = append(workers, b.Worker)
		}
	}
	n := float64(len(c.Requests))
	for i, name := range servers {
		s := Side{Name: "share of " + name, Measured: float64(took[name]) / n}
		if i < len(workers) {
			s.Simulated = float64(simulated[workers[i]]) / n
		}
		c.Sides = append(c.Sides, s)
	}
}

// addNoise adds the deviations of repeats from the run.
func (c *Compared) addNoise(repeats []*Measured) {
	for _, m := range repeats {
		other := &Compared{}
		for _, i := range m.judged() {
			r := &m.Requests[i]
			b := Both{Server: r.Server, Cached: [2]int{-1, 0}, InputTokens: r.Input}
			if r.Cached != nil {
				b.Cached = [2]int{*r.Cached, *r.Cached}
			}
			for k, to := range []*[2]float64{&b.TTFT, &b.TPOT, &b.E2E} {
				v := allMetrics()[k].valueOf(r)
				*to = [2]float64{v, v}
			}
			other.Requests = append(other.Requests, b)
		}
		other.addTimes(m, &collector.Distribution{})
		other.addHits()
		other.addShares()
		for i := range c.Sides {
			s := &c.Sides[i]
			k := slices.IndexFunc(other.Sides, func(o Side) bool { return o.Name == s.Name })
			if k < 0 {
				continue
			}
			off := s.rateOf(other.Sides[k].Measured)
			if s.Noise == nil {
				s.Noise = &[2]Rate{off, off}
			}
			s.Noise[0], s.Noise[1] = min(s.Noise[0], off), max(s.Noise[1], off)
		}
	}
}

// outcomeOf returns the times of a replay's tokens. The times are on the clock of a client if a client measured the
// run.
func (m *Measured) outcomeOf(result *harness.Result) (*Outcome, error) {
	records := m.recordsOf(result)
	if len(records) != len(m.Requests) {
		return nil, fmt.Errorf("%d of %d requests were replayed, expected all", len(records), len(m.Requests))
	}
	out := &Outcome{}
	out.reset(len(records))
	out.Way = m.way
	for i := range records {
		r := &records[i]
		if r.Tokens < r.OutputTokens {
			return nil, fmt.Errorf("request %s got %d of %d tokens in the replay, expected all", m.Requests[i].ID, r.Tokens, r.OutputTokens)
		}
		out.First[i], out.Last[i] = float64(r.First)/1000, float64(r.Last)/1000
		if m.InFlight > 0 {
			out.Begun = append(out.Begun, float64(r.Arrival)/1000)
		}
		if r.Admitted() {
			out.Scheduled[i] = float64(r.Admit) / 1000
		}
	}
	return out, nil
}
