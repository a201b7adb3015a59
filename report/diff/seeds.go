package diff

import (
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/router/policy"
)

// Draws reports whether the router of the run draws workers at random.
func (s *Side) Draws() bool {
	if s.Run == nil {
		return false
	}
	for key, value := range s.Run.Config {
		last := key[strings.LastIndexByte(key, '.')+1:]
		var name string
		switch {
		case key == "router" && json.Unmarshal(value, &name) == nil && slices.ContainsFunc(policy.All(), func(i policy.Info) bool { return i.Report == name && i.Draws }):
			return true
		case last == "temperature" || last == "router_temperature" || last == "sample" || last == "any_tie":
			if text := string(value); text != "0" && text != "false" && text != "null" && text != `""` {
				return true
			}
		case last == "gateway" && string(value) == `"`+policy.SMG+`"`: // it draws among equals
			return true
		case strings.HasPrefix(key, "picker.") && strings.Contains(string(value), "random-picker"):
			return true
		}
	}
	return false
}

// PairSides is PairRows without a verdict if a router draws random numbers.
func PairSides(a, b *Side) *Paired {
	p := PairRows(a.Rows, b.Rows)
	p.holdBack(a.Draws() || b.Draws())
	return p
}

// holdBack removes the verdicts if draws is set.
func (p *Paired) holdBack(draws bool) {
	if p == nil || !draws {
		return
	}
	for i := range p.Metrics {
		if m := &p.Metrics[i]; m.Low != nil {
			m.Verdict = OneSeed
		}
	}
}

// Repeat replaces intervals and verdicts with those over several seeds. seeds has the rows of A and B for each seed.
// A change is the mean over the seeds, and its interval is that of Student's t.
func (p *Paired) Repeat(seeds [][2][]requests.Row) {
	values := map[[2]string][2][]float64{} // by metric and statistic; values of A, then B
	for _, rows := range seeds {
		for _, m := range pairAll(rows[0], rows[1]).Metrics {
			k := [2]string{m.Metric, m.Statistic}
			v := values[k]
			values[k] = [2][]float64{append(v[0], m.A), append(v[1], m.B)}
		}
	}
	p.Repeats = len(seeds)
	for i := range p.Metrics {
		m := &p.Metrics[i]
		v := values[[2]string{m.Metric, m.Statistic}]
		n := len(v[0])
		if m.Low, m.High, m.Verdict = nil, nil, TooFew; n < 2 {
			continue
		}
		changes := make([]float64, n)
		for k := range changes {
			changes[k] = v[1][k] - v[0][k]
		}
		mean, err := stat.MeanStdDev(changes, nil)
		by := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975) * stat.StdErr(err, float64(n))
		m.A, m.B, m.Change = stat.Mean(v[0], nil), stat.Mean(v[1], nil), mean
		low, high := mean-by, mean+by
		m.Low, m.High = &low, &high
		m.judge()
	}
}
