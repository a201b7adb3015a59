package main

import (
	"cmp"
	"math"
	"slices"
)

// Stats contains the errors of a set of rows. Errors are relative: simulated to measured.
type Stats struct {
	Rows       int
	Mean       float64 // mean of the absolute errors of mean TPOT
	Median     float64
	Low, High  float64 // 10th and 90th percentiles
	In15, In20 float64 // shares of rows within 15 % and 20 %
	First      float64 // median error of mean TTFT in rows with at most mostFirst requests in flight
	FirstRows  int
}

// mostFirst is the maximum concurrency for judging TTFT. At a higher concurrency, TTFT is mostly waiting time.
const mostFirst = 8

// StatsOf returns the errors of outcomes.
func StatsOf(all []Outcome) Stats {
	var off, first []float64
	s := Stats{Rows: len(all)}
	for i := range all {
		x := all[i].Off()
		off = append(off, x)
		s.Mean += math.Abs(x) / float64(len(all))
		if math.Abs(x) <= 0.15 {
			s.In15 += 1 / float64(len(all))
		}
		if math.Abs(x) <= 0.20 {
			s.In20 += 1 / float64(len(all))
		}
		if all[i].Concurrency <= mostFirst && all[i].TTFT > 0 {
			first = append(first, all[i].FirstOff())
		}
	}
	slices.Sort(off)
	slices.Sort(first)
	s.Median, s.Low, s.High = findQuantile(off, 0.5), findQuantile(off, 0.1), findQuantile(off, 0.9)
	s.First, s.FirstRows = findQuantile(first, 0.5), len(first)
	return s
}

// findQuantile returns an interpolated quantile of sorted values; 0 if there are no values.
func findQuantile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := share * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-1)
	j := min(i+1, len(sorted)-1)
	return sorted[i] + float64((at-float64(i))*(sorted[j]-sorted[i]))
}

// group is a set of outcomes with the same key.
type group[K cmp.Ordered] struct {
	key K
	all []Outcome
}

// groupBy groups outcomes by a key, in the order of the keys.
func groupBy[K cmp.Ordered](all []Outcome, key func(*Outcome) K) []group[K] {
	at := map[K]int{}
	var groups []group[K]
	for i := range all {
		k := key(&all[i])
		if _, ok := at[k]; !ok {
			at[k] = len(groups)
			groups = append(groups, group[K]{key: k})
		}
		groups[at[k]].all = append(groups[at[k]].all, all[i])
	}
	slices.SortFunc(groups, func(a, b group[K]) int { return cmp.Compare(a.key, b.key) })
	return groups
}
