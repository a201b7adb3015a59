package planner

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler"
)

// Pair plans a prefill and a decode pool with one GPU budget.
type Pair struct {
	c               *Config
	prefill, decode *Planner
	budget          pairBudget
}

// NewPair returns a planner of two pools.
func NewPair(c *Config, prefill, decode Engine) (*Pair, error) {
	p, err := New(c, scheduler.Prefill, prefill)
	if err != nil {
		return nil, err
	}
	d, err := New(c, scheduler.Decode, decode)
	if err != nil {
		return nil, err
	}
	x := &Pair{c: c, prefill: p, decode: d, budget: pairBudget{p.budget, pair{p.engine.GPUs, d.engine.GPUs}, pair{p.least, d.least}}}
	if n := x.budget.count(x.budget.least); c.MaxGPUBudget >= 0 && n > c.MaxGPUBudget {
		return nil, fmt.Errorf("max_gpu_budget is %d, must be at least %d, which the fewest workers of both pools have", c.MaxGPUBudget, n)
	}
	return x, nil
}

// Why returns the reasons of the latest decision, for each pool.
func (x *Pair) Why() (prefill, decode string) { return x.prefill.why, x.decode.why }

func (x *Pair) ready() pair { return pair{x.prefill.ready, x.decode.ready} }

// isSteady reports whether no worker is starting.
func (x *Pair) isSteady() bool {
	return x.prefill.ready == x.prefill.expected && x.decode.ready == x.decode.expected
}

// Tick returns the numbers of workers; ok is false if there is no decision.
func (x *Pair) Tick(seconds float64, prefill, decode *View, t Traffic) (p, d int, ok bool) {
	x.setWhy("no change")
	if seconds <= 0 {
		return 0, 0, false
	}
	x.prefill.ready, x.prefill.expected, x.decode.ready, x.decode.expected = prefill.Ready, prefill.Expected, decode.Ready, decode.Expected
	loads := isDue(x.prefill.load, seconds, x.c.LoadInterval)
	measures := x.c.throughput() && isDue(x.prefill.traffic, seconds, x.c.ThroughputInterval)
	if loads {
		if x.prefill.load = seconds; x.prefill.model != nil {
			x.prefill.model.observe(prefill.Passes)
			x.decode.model.observe(decode.Passes)
		}
	}
	n := x.ready()
	switch {
	case measures:
		n, ok = x.scaleByTraffic(seconds, t)
	case loads && x.prefill.model != nil && !x.c.throughput():
		_ = x.prefill.takeTraffic(seconds, t)
	}
	if loads && x.c.load() {
		n, ok = x.scaleByLoad(prefill.Passes, decode.Passes)
	}
	n, ok = x.boundWanted(n, ok)
	return n.p, n.d, ok
}

func (x *Pair) setWhy(why string) { x.prefill.why, x.decode.why = why, why }

// scaleByTraffic is Planner.scaleByTraffic for both pools: if one is unknown, neither changes.
func (x *Pair) scaleByTraffic(seconds float64, t Traffic) (pair, bool) {
	i := x.prefill.takeTraffic(seconds, t)
	f := &x.prefill.foresight
	f.note(i)
	demand := f.requests.last / i.seconds
	p, first := x.prefill.divideDemand(demand, f)
	d, second := x.decode.divideDemand(demand, f)
	n := pair{p, d}
	if !first || !second {
		n = x.ready()
	}
	n = x.fitCeiling(pair{x.prefill.limitStep(n.p), x.decode.limitStep(n.d)})
	if x.c.load() {
		x.prefill.floor, x.decode.floor = n.p, n.d
		return n, false
	}
	n = x.guard(n)
	return n, n != x.ready()
}

// scaleByLoad is Planner.scaleByLoad for both pools. A pool without a pass does not change.
func (x *Pair) scaleByLoad(prefill, decode []scheduler.Snapshot) (pair, bool) {
	now := x.ready()
	switch {
	case len(prefill)+len(decode) == 0:
		x.setWhy("no worker has reported a pass")
		return now, false
	case !x.isSteady():
		x.setWhy("workers are starting")
		return now, false
	case len(prefill) > 0 && len(prefill) != now.p || len(decode) > 0 && len(decode) != now.d:
		x.setWhy("some workers have not reported a pass")
		return now, false
	}
	n := pair{x.prefill.compareOr(prefill, now.p), x.decode.compareOr(decode, now.d)}
	lifted := false
	if x.c.throughput() {
		lifted = x.prefill.floor > n.p || x.decode.floor > n.d
		n = pair{max(n.p, x.prefill.floor), max(n.d, x.decode.floor)}
	}
	n = pair{max(n.p, x.prefill.least), max(n.d, x.decode.least)}
	if lifted {
		n = x.fitCeiling(n)
	}
	n = x.guard(n)
	return n, n != now
}

// compareOr returns the number of workers required by the passes, or now if it is unknown.
func (p *Planner) compareOr(passes []scheduler.Snapshot, now int) int {
	if len(passes) == 0 {
		p.why = "no worker has reported a pass"
		return now
	}
	if n, ok := p.compare(passes); ok {
		return n
	}
	return now
}

// lacks reports whether a pool has fewer workers than expected.
func (x *Pair) lacks() bool {
	return x.prefill.ready < x.prefill.least || x.decode.ready < x.decode.least
}

// fitCeiling returns the pair nearest to n within the upper limit of the budget.
func (x *Pair) fitCeiling(n pair) pair {
	ceiling := budget{-1, x.c.MaxGPUBudget}
	if x.lacks() {
		return x.budget.clamp(pair{max(n.p, x.prefill.least), max(n.d, x.decode.least)}, ceiling)
	}
	return x.budget.fit(x.ready(), n, ceiling)
}

// guard limits a change to the budget. No pool changes in the opposite direction.
func (x *Pair) guard(n pair) pair {
	if x.lacks() {
		return x.budget.clamp(pair{max(n.p, x.prefill.least), max(n.d, x.decode.least)}, x.budget.budget)
	}
	to, held := x.budget.guard(x.ready(), n)
	if held && to != n {
		x.noteBudget(to)
	}
	return to
}

func (x *Pair) noteBudget(to pair) {
	x.prefill.why += fmt.Sprintf("; GPU budget allows %d", to.p)
	x.decode.why += fmt.Sprintf("; GPU budget allows %d", to.d)
}

// boundWanted returns the required numbers within the bounds, and false if they equal the ready workers.
func (x *Pair) boundWanted(n pair, ok bool) (pair, bool) {
	now, steady := x.ready(), x.isSteady()
	if !ok {
		n = now
	}
	if steady && now.p < x.prefill.least {
		n.p = max(n.p, x.prefill.least)
	}
	if steady && now.d < x.decode.least {
		n.d = max(n.d, x.decode.least)
	}
	if n == now && (!steady || x.budget.allows(now, x.budget.budget)) {
		return n, false
	}
	to := x.budget.clamp(pair{max(n.p, x.prefill.least), max(n.d, x.decode.least)}, x.budget.budget)
	if to != n {
		x.noteBudget(to)
	}
	return to, to != now
}
