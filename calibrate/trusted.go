package calibrate

import (
	"cmp"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
)

// pass holds the quantities of a pass that have a trusted range. Several equal passes in a row can be one pass.
type pass struct {
	ms                                         float64
	tokens, requests, context, perSeq, waiting float64
}

// readPass reads a pass, which must have Detail.
func readPass(p *scheduler.Pass, blockTokens int) pass {
	d := p.Detail
	tokens := p.Tokens
	for _, w := range d.Work {
		tokens += w.Prompt + w.Recomputed
	}
	x := pass{
		ms: float64(p.End - p.Start), tokens: float64(tokens), requests: float64(d.Running),
		context: float64(d.Held * blockTokens), waiting: float64(d.Waiting),
	}
	x.perSeq = x.context / max(x.requests, 1)
	return x
}

// quantity is a quantity of a pass that has a trusted range.
type quantity struct {
	name string
	in   *timing.Range
	of   func(*pass) float64
}

func trustedQuantities(t *timing.Trusted) []quantity {
	return []quantity{
		{"tokens per pass", &t.Tokens, func(p *pass) float64 { return p.tokens }},
		{"running requests", &t.Requests, func(p *pass) float64 { return p.requests }},
		{"tokens of KV cache", &t.Context, func(p *pass) float64 { return p.context }},
		{"tokens of KV cache per request", &t.PerSeq, func(p *pass) float64 { return p.perSeq }},
		{"waiting requests", &t.Waiting, func(p *pass) float64 { return p.waiting }},
	}
}

// trustedRange returns the range of passes. Each pass is weighted by its duration.
func trustedRange(all []pass) *timing.Trusted {
	t := &timing.Trusted{}
	total := 0.0
	for i := range all {
		total += all[i].ms
	}
	for _, q := range trustedQuantities(t) {
		stable.Sort(all, func(a, b pass) int { return cmp.Compare(q.of(&a), q.of(&b)) })
		below := 0.0
		q.in.Least = q.of(&all[0])
		for i := range all {
			if below <= 0.01*total {
				q.in.Least = q.of(&all[i])
			}
			if below <= 0.99*total {
				q.in.Most = q.of(&all[i])
			}
			below += all[i].ms
		}
	}
	return t
}

// Coverage measures how much of a replay is inside the trusted range of a profile.
type Coverage struct {
	trusted     timing.Trusted
	quantities  []quantity // of trusted
	latest      pass
	blockTokens int
	total       float64
	outside     [5]float64 // ms by quantity
	any         float64    // ms with at least one quantity outside
}

// NewCoverage returns a Coverage for passes of engines with blocks of blockTokens.
func NewCoverage(t timing.Trusted, blockTokens int) *Coverage {
	c := &Coverage{trusted: t, blockTokens: blockTokens}
	c.quantities = trustedQuantities(&c.trusted)
	return c
}

// Pass counts a pass, which must have Detail.
func (c *Coverage) Pass(p *scheduler.Pass) {
	x := &c.latest
	*x = readPass(p, c.blockTokens)
	if p.Count > 1 {
		x.tokens = float64(p.Tokens)
	}
	c.total += x.ms
	out := false
	for i := range c.quantities {
		if q := &c.quantities[i]; !q.in.Holds(q.of(x)) {
			c.outside[i] += x.ms
			out = true
		}
	}
	if out {
		c.any += x.ms
	}
}

// Outside returns the share of the passes' time outside the trusted range, and the quantity that is outside for the
// longest time.
func (c *Coverage) Outside() (share float64, name string) {
	if c.total == 0 {
		return 0, ""
	}
	most := 0
	for i := range c.outside {
		if c.outside[i] > c.outside[most] {
			most = i
		}
	}
	return c.any / c.total, c.quantities[most].name
}
