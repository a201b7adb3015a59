package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/accuracy"
)

// groupsOf returns the errors of outcomes, grouped by one property at a time.
func groupsOf(all []Outcome) []accuracy.Group {
	groups := []accuracy.Group{groupOf("all", "", all)}
	add := func(by string, key func(*Outcome) string) {
		for _, g := range groupBy(all, key) {
			groups = append(groups, groupOf(by, g.key, g.all))
		}
	}
	add("engine", func(o *Outcome) string { return accuracy.NameEngine(o.Engine) })
	add("model", func(o *Outcome) string { return listModels()[o.Model].name })
	add("engine, model", func(o *Outcome) string { return accuracy.NameEngine(o.Engine) + ", " + listModels()[o.Model].name })
	add("weights", func(o *Outcome) string { return o.Kind.Weights })
	add("GPU", func(o *Outcome) string { return o.gpu() })
	for _, g := range groupBy(all, func(o *Outcome) int { return o.GPUs() }) {
		groups = append(groups, groupOf("GPUs", fmt.Sprint(g.key), g.all))
	}
	for _, g := range groupBy(all, func(o *Outcome) int { return roundUp(o.Concurrency) }) {
		groups = append(groups, groupOf("in flight", fmt.Sprintf("up to %d", g.key), g.all))
	}
	return groups
}

// roundUp returns n rounded up to a power of 4, at least 4.
func roundUp(n int) int {
	most := 4
	for most < n {
		most *= 4
	}
	return most
}

// groupOf returns the errors of outcomes, in percent.
func groupOf(by, name string, all []Outcome) accuracy.Group {
	s := StatsOf(all)
	return accuracy.Group{
		By: by, Name: name, Rows: s.Rows, Mean: roundTo(100*s.Mean, 1), Median: roundTo(100*s.Median, 1), In15: roundTo(100*s.In15, 1), In20: roundTo(100*s.In20, 1),
		First: roundTo(100*s.First, 1), FirstRows: s.FirstRows,
	}
}

// roundTo returns x rounded to a number of decimals, and never -0.
func roundTo(x float64, digits int) float64 {
	return math.Round(x*math.Pow10(digits))/math.Pow10(digits) + 0
}

// classesOf returns the error bands of all classes with enough rows, the narrowest class first.
func classesOf(all []Outcome) []accuracy.Band {
	var bands []accuracy.Band
	for level := range len((accuracy.Kind{}).Levels()) {
		of := map[accuracy.Kind][]Outcome{}
		var kinds []accuracy.Kind
		for i := range all {
			k := all[i].Kind.Levels()[level]
			if of[k] == nil {
				kinds = append(kinds, k)
			}
			of[k] = append(of[k], all[i])
		}
		slices.SortFunc(kinds, compareKinds)
		for _, k := range kinds {
			if len(of[k]) < accuracy.MinClassRows || slices.ContainsFunc(bands, func(b accuracy.Band) bool { return b.Kind == k }) {
				continue
			}
			s := StatsOf(of[k])
			bands = append(bands, accuracy.Band{Kind: k, Rows: s.Rows, Median: roundTo(100*s.Median, 1), Low: roundTo(100*s.Low, 1), High: roundTo(100*s.High, 1)})
		}
	}
	return bands
}

func compareKinds(a, b accuracy.Kind) int {
	return cmp.Or(cmp.Compare(a.Engine, b.Engine), cmp.Compare(a.Family, b.Family), cmp.Compare(a.Shape, b.Shape), cmp.Compare(a.Weights, b.Weights),
		cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.Ranks, b.Ranks))
}
