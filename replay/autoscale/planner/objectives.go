package planner

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler"
)

// verdict is the number of workers required by an objective.
type verdict struct {
	n     int
	known bool // n is known
	why   string
}

// compareObjectives returns the number of workers required by the objectives of TTFT and ITL.
func (p *Planner) compareObjectives(passes []scheduler.Snapshot) (int, bool) {
	if p.why = "too few passes have been measured"; !p.model.isReady() {
		return 0, false
	}
	var v verdict
	switch p.role {
	case scheduler.Prefill:
		v = p.judge(p.judgeFirst(passes, scales{}), p.c.TTFT, "TTFT").verdict
	case scheduler.Decode:
		v = p.judge(p.judgeNext(passes, false), p.c.ITL, "ITL").verdict
	default:
		v = p.judgeBoth(passes)
	}
	p.why = v.why
	return v.n, v.known
}

// judgeBoth combines the verdicts of TTFT and ITL: more workers if either requires more, fewer if both allow fewer.
func (p *Planner) judgeBoth(passes []scheduler.Snapshot) verdict {
	first := p.keep(p.judge(p.judgeFirst(passes, scales{waiting: true}), p.c.TTFT, "TTFT"))
	next := p.keep(p.judge(p.judgeNext(passes, true), p.c.ITL, "ITL"))
	v := verdict{p.ready, true, first.why + "; " + next.why}
	switch {
	case first.known && first.n > p.ready:
		v.n = first.n
	case next.known && next.n > p.ready:
		v.n = next.n
	case !first.known && next.known && next.n < p.ready:
		v.n = next.n
	case first.known && first.n < p.ready && next.known && next.n < p.ready:
		v.n = max(first.n, next.n)
	}
	return v
}

// keep returns the verdict, or the present number if fewer workers would miss the objective.
func (p *Planner) keep(v refused) verdict {
	if !v.known && v.refused {
		v.n, v.known = p.ready, true
	}
	return v.verdict
}

// refused is a verdict. refused reports whether fewer workers would miss the objective.
type refused struct {
	verdict
	refused bool
}

// estimates is the estimates of all workers, in ms. fewer reports whether one worker may be removed.
type estimates struct {
	all     []float64
	fewer   bool
	refused bool // fewer is false because the objective would be missed
}

// judge adds a worker if all workers miss the objective.
func (p *Planner) judge(e estimates, limit float64, name string) refused {
	if len(e.all) == 0 {
		return refused{verdict: verdict{why: name + " cannot be estimated"}, refused: e.refused}
	}
	least, most := e.all[0], e.all[0]
	for _, t := range e.all {
		least, most = min(least, t), max(most, t)
	}
	v := verdict{why: fmt.Sprintf("%s of the next request %s ms, objective %.4g", name, formatRange(least, most), limit)}
	switch {
	case least > limit:
		v.n, v.known = p.ready+1, true
	case e.fewer:
		v.n, v.known = max(p.ready-1, p.least), true
	}
	return refused{v, !v.known && e.refused}
}

// formatRange formats a range of numbers, as one number if both ends are equal.
func formatRange(least, most float64) string {
	low, high := fmt.Sprintf("%.4g", least), fmt.Sprintf("%.4g", most)
	if low == high {
		return low
	}
	return low + " to " + high
}

// consolidate returns the factor by which the load of each worker grows with one worker fewer.
func (p *Planner) consolidate() float64 {
	if p.ready > 1 {
		return float64(p.ready) / float64(p.ready-1)
	}
	return 1
}

// judgeFirst estimates TTFT on each worker. With one worker fewer, the queue time must stay below a share of the slack of
// the objective.
func (p *Planner) judgeFirst(passes []scheduler.Snapshot, by scales) estimates {
	e, m := estimates{fewer: p.ready > 1}, p.model
	if p.engine.MaxBatchedTokens == 0 {
		return estimates{}
	}
	more := p.consolidate()
	for i := range passes {
		s := &passes[i]
		if t, ok := m.timeToFirst(s, p.hitRate, scales{queue: 1, decode: 1}); ok {
			e.all = append(e.all, t)
		}
		if !e.fewer {
			continue
		}
		by.decode = 1
		if p.role == scheduler.Aggregated {
			by.decode = more
		}
		by.queue = 0
		own, ok := m.timeToFirst(s, p.hitRate, by)
		by.queue = more
		after, known := m.timeToFirst(s, p.hitRate, by)
		room := (p.c.TTFT - own) * (float64(p.c.Sensitivity) / 100)
		switch {
		case !ok || !known && (p.role == scheduler.Aggregated || room > 0):
			e.fewer = false
		case room <= 0 || after-own >= room:
			e.fewer, e.refused = false, true
		}
	}
	return e
}

// judgeNext estimates ITL on each worker. With one worker fewer, its requests must fit in the KV cache, and ITL must
// stay below a share of the objective.
func (p *Planner) judgeNext(passes []scheduler.Snapshot, prompts bool) estimates {
	e, m := estimates{fewer: p.ready > 1}, p.model
	more := p.consolidate()
	for i := range passes {
		s := &passes[i]
		if t, ok := m.timeBetween(s, scales{decode: 1}); ok {
			e.all = append(e.all, t)
		}
		if !e.fewer {
			continue
		}
		tokens := s.Decode.Sum + s.QueuedDecode.Sum
		if prompts {
			tokens += s.QueuedPrefill.Sum
		}
		if kv := p.engine.KVTokens; kv > 0 && int(float64(tokens)*more) >= kv {
			e.fewer, e.refused = false, true
			continue
		}
		after, ok := m.timeBetween(s, scales{decode: more, prompts: prompts})
		switch {
		case !ok:
			e.fewer = false
		case after >= p.c.ITL*(float64(p.c.Sensitivity)/100):
			e.fewer, e.refused = false, true
		}
	}
	return e
}
