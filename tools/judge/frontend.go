package main

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/scheduler/silicon"
)

// withFrontEnd returns mean TTFT with the given front end.
func (o *Outcome) withFrontEnd(f silicon.FrontEnd) float64 {
	return o.SimulatedTTFT + float64(f.Of(o.meanInput())-o.frontEnd.Of(o.meanInput()))
}

// meanInput returns the mean prompt length in tokens.
func (o *Outcome) meanInput() int {
	if o.Drawn() {
		return o.Input * 9 / 10
	}
	return o.Input
}

// listFirst returns the outcomes that are used to judge TTFT.
func listFirst(all []Outcome) (first []Outcome) {
	for i := range all {
		if all[i].Concurrency <= mostFirst && all[i].TTFT > 0 {
			first = append(first, all[i])
		}
	}
	return first
}

// firstOff returns the mean absolute error and the median error of mean TTFT with the given front end, as shares.
func firstOff(all []Outcome, f silicon.FrontEnd) (mean, median float64) {
	off := make([]float64, len(all))
	for i := range all {
		off[i] = all[i].withFrontEnd(f)/all[i].TTFT - 1
		mean += math.Abs(off[i]) / float64(len(all))
	}
	slices.Sort(off)
	return mean, findQuantile(off, 0.5)
}

// fitFrontEnd returns the front end with the lowest mean absolute error.
func fitFrontEnd(all []Outcome) silicon.FrontEnd {
	_, steps := listSteps()
	x := findLeast([]float64{10, 0.002}, steps, func(x []float64) float64 {
		mean, _ := firstOff(all, silicon.FrontEnd{Base: x[0], Token: x[1]})
		return mean
	})
	return silicon.FrontEnd{Base: x[0], Token: x[1]}
}

// frontEndsOf returns the fitted front ends of each engine. One fit of an engine uses all servers, and further fits
// leave out one model or GPU generation each. The errors of the further fits are for the held-out servers.
func frontEndsOf(all []Outcome) (fits []accuracy.FrontEnd) {
	for _, engine := range groupBy(listFirst(all), func(o *Outcome) string { return accuracy.NameEngine(o.Engine) }) {
		leaveOut(engine.all, func(name string, fitted, judged []Outcome) {
			f := fitFrontEnd(fitted)
			mean, median := firstOff(judged, f)
			own, ownMedian := firstOff(judged, engine.all[0].frontEnd)
			fits = append(fits, accuracy.FrontEnd{
				Servers: engine.key, Fitted: name, Base: roundTo(f.Base, 1), Token: roundTo(f.Token, 4), Rows: len(judged),
				Mean: roundTo(100*mean, 1), Median: roundTo(100*median, 1), Program: roundTo(100*own, 1), ProgramMedian: roundTo(100*ownMedian, 1),
			})
		})
	}
	return fits
}
