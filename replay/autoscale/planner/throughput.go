package planner

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler"
)

// foresight is the traffic of earlier intervals. The predictor is the planner's constant predictor.
type foresight struct {
	requests, input, output series
	lastInput, lastOutput   float64 // of the latest interval with requests
	any                     bool    // there was an interval with requests
}

// series is the latest value, without leading zeros.
type series struct {
	last  float64
	begun bool
}

func (s *series) add(v float64) {
	if s.begun = s.begun || v != 0; s.begun {
		s.last = v
	}
}

// interval is the traffic between two ticks. input and output are mean lengths of finished requests.
type interval struct {
	seconds, requests float64
	input, output     float64
}

// takeTraffic returns the traffic since the previous call, and updates the cached share of prompts.
func (p *Planner) takeTraffic(seconds float64, t Traffic) interval {
	old := p.seen
	i := interval{seconds: seconds - p.traffic, requests: float64(t.Requests - old.Requests)}
	if n := t.Finished - old.Finished; n > 0 {
		i.input, i.output = float64(t.Input-old.Input)/float64(n), float64(t.Output-old.Output)/float64(n)
	}
	p.hitRate = 0
	if n := t.Placed - old.Placed; n > 0 {
		p.hitRate = (t.Reuse - old.Reuse) / float64(n)
	}
	p.traffic, p.seen = seconds, t
	return i
}

// note adds an interval. An interval without requests gets the lengths of the latest interval with requests.
func (f *foresight) note(i interval) {
	f.requests.add(i.requests)
	switch {
	case i.requests > 0:
		f.any, f.lastInput, f.lastOutput = true, i.input, i.output
	case f.any:
		i.input, i.output = f.lastInput, f.lastOutput
	}
	f.input.add(i.input)
	f.output.add(i.output)
}

// scaleByTraffic returns the number of workers required by the predicted traffic. If scaling by load is enabled, this
// number is the minimum of scaling by load.
func (p *Planner) scaleByTraffic(seconds float64, t Traffic) (int, bool) {
	i := p.takeTraffic(seconds, t)
	p.foresight.note(i)
	n, known := p.divideDemand(p.foresight.requests.last/i.seconds, &p.foresight)
	if !known {
		n = p.ready
	}
	n = p.limitStep(n)
	fits, _ := budget{-1, p.c.MaxGPUBudget}.guard(p.ready, n, p.engine.GPUs, p.least)
	if p.c.load() {
		p.floor = fits
		return 0, false
	}
	if n = p.guard(fits); !known && n == p.ready {
		return 0, false
	}
	return n, true
}

// divideDemand returns the predicted request rate divided by the capacity of a worker. known is false if the capacity
// is unknown.
func (p *Planner) divideDemand(demand float64, f *foresight) (n int, known bool) {
	p.why = "what a worker takes is not known yet"
	c, ok := p.model.findCapacity(f.input.last, f.output.last, p.hitRate)
	if !ok || c.rate <= 0 || p.role == scheduler.Aggregated && p.engine.MaxBatchedTokens == 0 {
		return 0, false
	}
	n = max(workersFor(demand, c.rate), p.least)
	p.why = fmt.Sprintf("%.4g requests/s foreseen, a worker takes %.4g: %d", demand, c.rate, n)
	return n, true
}

// limitStep returns the number of workers nearest to n that one decision by traffic allows.
func (p *Planner) limitStep(n int) int {
	return max(min(max(n, p.ready-p.c.MaxStep, 0), p.ready+p.c.MaxStep), p.least)
}
