package main

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/scheduler/optables"
	"github.com/replay-llm/replay/scheduler/silicon"
)

// eraOf returns the name of the group of servers that share corrections: an engine, or some of its releases.
func eraOf(o *Outcome) string {
	name := accuracy.NameEngine(o.Engine)
	switch {
	case o.Engine == vllmEngine && o.corrections == silicon.CorrectionsOf(optables.VLLM, "0.11"):
		return name + " before asynchronous scheduling"
	case o.Engine == vllmEngine:
		return name + " with asynchronous scheduling"
	case o.Engine == trtllmEngine && o.corrections == silicon.CorrectionsOf(optables.TRTLLM, "1.0"):
		return name + " 1.0"
	case o.Engine == trtllmEngine:
		return name + " from 1.1 on"
	}
	return name
}

// step is the initial step size of a constant, and its range.
type step struct{ size, least, most float64 }

// listSteps returns the steps of the fitted constants: the fields of Corrections, and the times of the front end. The
// front end has a time per request and a time per prompt token, both in ms.
func listSteps() (corrections, frontEnd []step) {
	return []step{{0.2, 1, 1.5}, {20, 0, 100}, {1, 0, 4}, {0.02, 0, 0.08}}, []step{{40, 0, 400}, {0.02, 0, 0.1}}
}

// findLeast returns the constants with the lowest error. findLeast changes one constant at a time, with decreasing
// steps.
func findLeast(x []float64, steps []step, off func(x []float64) float64) []float64 {
	best := off(x)
	for round := 0; round < 12; {
		better := false
		for i, s := range steps {
			for _, sign := range []float64{1, -1} {
				next := slices.Clone(x)
				next[i] = min(max(next[i]+sign*s.size/math.Pow(2, float64(round)), s.least), s.most)
				if e := off(next); e < best {
					x, best, better = next, e, true
				}
			}
		}
		if !better {
			round++
		}
	}
	return x
}

// meanOff returns the mean absolute relative error of mean TPOT with the given corrections.
func meanOff(all []Outcome, c *silicon.Corrections) float64 {
	total := 0.0
	for i := range all {
		total += math.Abs(all[i].parts.tpot(c)/all[i].TPOT - 1)
	}
	return total / float64(max(len(all), 1))
}

// fitCorrections returns the corrections with the lowest mean absolute error.
func fitCorrections(all []Outcome) silicon.Corrections {
	of := func(x []float64) silicon.Corrections {
		return silicon.Corrections{Prompts: x[0], Prompt: x[1], Base: x[2], Request: x[3]}
	}
	steps, _ := listSteps()
	return of(findLeast([]float64{1.1, 5, 0.5, 0.01}, steps, func(x []float64) float64 {
		c := of(x)
		return meanOff(all, &c)
	}))
}

// fitsOf returns the fitted corrections of each era. One fit of an era uses all servers, and further fits leave out
// one model or GPU generation each. The errors of the further fits are for the held-out servers.
func fitsOf(all []Outcome) (fits []accuracy.Constants) {
	for _, era := range groupBy(all, eraOf) {
		leaveOut(era.all, func(name string, fitted, judged []Outcome) {
			row := constantsOf(name, fitted, judged)
			row.Servers, row.Program = era.key, roundTo(100*meanOff(judged, &era.all[0].corrections), 1)
			fits = append(fits, row)
		})
	}
	return fits
}

// leaveOut calls fit for all servers. Then leaveOut holds out each model and each GPU generation, and judges by the
// held-out servers.
func leaveOut(all []Outcome, fit func(name string, fitted, judged []Outcome)) {
	fit("all servers", all, all)
	for _, key := range []func(*Outcome) string{
		func(o *Outcome) string { return listModels()[o.Model].name }, func(o *Outcome) string { return o.Kind.Generation },
	} {
		groups := groupBy(all, key)
		if len(groups) < 2 {
			continue
		}
		for _, left := range groups {
			var rest []Outcome
			for _, g := range groups {
				if g.key != left.key {
					rest = append(rest, g.all...)
				}
			}
			fit("all but "+left.key, rest, left.all)
		}
	}
}

// constantsOf returns the row of corrections that are fitted to some servers and judged by other servers.
func constantsOf(name string, fitted, judged []Outcome) accuracy.Constants {
	c := fitCorrections(fitted)
	return accuracy.Constants{
		Fitted: name, Rows: len(judged), Prompts: roundTo(c.Prompts, 2), Prompt: roundTo(c.Prompt, 1), Base: roundTo(c.Base, 2), Request: roundTo(c.Request, 4), Mean: roundTo(100*meanOff(judged, &c), 1),
	}
}
