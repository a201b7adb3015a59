package main

import (
	"math"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/scheduler/optables"
	"github.com/replay-llm/replay/scheduler/silicon"
)

// eraOf names the servers that share corrections: an engine, or releases of it.
func eraOf(o *Outcome) string {
	name := accuracy.NameEngine(o.Engine)
	if o.Engine != vllmEngine {
		return name
	}
	if o.corrections == silicon.CorrectionsOf(optables.VLLM, "0.11") {
		return name + " before asynchronous scheduling"
	}
	return name + " with asynchronous scheduling"
}

// step is by how much a correction is changed first, and its range.
type step struct {
	of          func(*silicon.Corrections) *float64
	size        float64
	least, most float64
}

// listSteps returns the corrections that are fitted.
func listSteps() []step {
	return []step{
		{func(c *silicon.Corrections) *float64 { return &c.Prompts }, 0.2, 1, 1.5},
		{func(c *silicon.Corrections) *float64 { return &c.Base }, 1, 0, 4},
		{func(c *silicon.Corrections) *float64 { return &c.Request }, 0.02, 0, 0.08},
	}
}

// meanOff returns the mean absolute error of outcomes with other corrections, as a share.
func meanOff(all []Outcome, c *silicon.Corrections) float64 {
	total := 0.0
	for i := range all {
		total += math.Abs(all[i].parts.tpot(c)/all[i].TPOT - 1)
	}
	return total / float64(max(len(all), 1))
}

// fitCorrections returns the corrections with the least mean absolute error, by changing one after the other in steps that
// become smaller.
func fitCorrections(all []Outcome) silicon.Corrections {
	c := silicon.Corrections{Prompts: 1.1, Base: 0.5, Request: 0.01}
	best := meanOff(all, &c)
	steps := listSteps()
	for round := 0; round < 12; {
		better := false
		for _, s := range steps {
			for _, sign := range []float64{1, -1} {
				next := c
				value := s.of(&next)
				*value = min(max(*value+sign*s.size/math.Pow(2, float64(round)), s.least), s.most)
				if off := meanOff(all, &next); off < best {
					c, best, better = next, off, true
				}
			}
		}
		if !better {
			round++
		}
	}
	return c
}

// fitsOf returns the corrections of each era, fitted to all of its servers, and without one model or GPU generation each,
// with the errors on what was left out.
func fitsOf(all []Outcome) []accuracy.Constants {
	var fits []accuracy.Constants
	for _, era := range groupBy(all, eraOf) {
		rows := []accuracy.Constants{constantsOf("all servers", era.all, era.all)}
		rows[0].Program = roundTo(100*meanOff(era.all, &era.all[0].corrections), 1)
		for _, key := range []func(*Outcome) string{
			func(o *Outcome) string { return listModels()[o.Model].name }, func(o *Outcome) string { return o.Kind.Generation },
		} {
			groups := groupBy(era.all, key)
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
				row := constantsOf("all but "+left.key, rest, left.all)
				row.Program = roundTo(100*meanOff(left.all, &era.all[0].corrections), 1)
				rows = append(rows, row)
			}
		}
		for i := range rows {
			rows[i].Servers = era.key
		}
		fits = append(fits, rows...)
	}
	return fits
}

// constantsOf returns the row of corrections that are fitted to some servers and judged on others.
func constantsOf(name string, fitted, judged []Outcome) accuracy.Constants {
	c := fitCorrections(fitted)
	return accuracy.Constants{
		Fitted: name, Rows: len(judged), Prompts: roundTo(c.Prompts, 2), Base: roundTo(c.Base, 2), Request: roundTo(c.Request, 4), Mean: roundTo(100*meanOff(judged, &c), 1),
	}
}
