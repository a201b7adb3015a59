// Package plan runs many replays for one result: the smallest cluster that meets objectives, the highest load of a
// cluster, or a grid of settings.
//
// A plan knows neither flags nor reports. The caller of a plan provides a function that runs one Point. Read point.go
// (the input of a replay), batch.go (parallel replays), search.go (the smallest cluster of one pool and of two
// pools), goodput.go (the highest load), resample.go (error bars), confident.go and confidentsplit.go (clusters that
// meet in most resamples), pareto.go, plan.go (the complete plan). For grids read grid.go, sweep.go, results.go,
// repeat.go (intervals).
package plan

import (
	"context"
	"fmt"
)

// Shape is the number of workers of a cluster: Workers in one pool, or Prefill and Decode in two pools.
type Shape struct {
	Workers         int // 0 with two pools
	Prefill, Decode int // 0 with one pool
}

// One returns a cluster of one pool.
func One(workers int) Shape { return Shape{Workers: workers} }

// Two returns a cluster of two pools.
func Two(prefill, decode int) Shape { return Shape{Prefill: prefill, Decode: decode} }

// Split reports whether prefill and decode have separate pools.
func (s Shape) Split() bool { return s.Workers == 0 }

// Size returns the number of workers of all pools.
func (s Shape) Size() int { return s.Workers + s.Prefill + s.Decode }

func (s Shape) String() string {
	if s.Split() {
		return fmt.Sprintf("%d prefill + %d decode workers", s.Prefill, s.Decode)
	}
	if s.Workers == 1 {
		return "1 worker"
	}
	return fmt.Sprintf("%d workers", s.Workers)
}

// Point is one replay to be run.
type Point struct {
	Variant int // index of the settings
	Shape   Shape
	// Load is the factor of the request rate or, in closed loop, of the requests in flight, relative to the workload;
	// 1: unchanged.
	Load float64
	// Sample is 0 for the workload itself and k for the k-th of its resamples.
	Sample int
	// Part is 0 for the whole workload and k for the busiest stretch of 1/2^k of its time.
	Part int
}

// Measure is the result of a replay.
type Measure struct {
	Point
	Met    bool    // whether all objectives are met
	Values []Value // one per objective, in their order
	Missed string  // the missed objectives, "" if Met
	// Saturation is the state of the load, as in report/saturation; "" in closed loop.
	Saturation string
	// The values of objectives on ITL by the other definition: pooled gaps instead of means of requests, or the
	// reverse. The other definition is only for texts.
	Others []Value

	RequestsPerS      float64
	OutputTokensPerS  float64
	TotalTokensPerS   float64 // prompts and answers
	PrefixReusedRatio float64 // share of the prompt tokens found in a cache

	Window string // which part of the replay it is about, for people alone; "": all

	Shed, Arrived int // requests that were turned away, and all; 0 without an admission

	Requests         int // that were replayed: those of the stretch, once for each replay that the point takes
	Rejected, Capped int // requests with prompts that are longer than the engines take, and with answers that end there
}

// Value is the outcome of one objective.
type Value struct {
	Name  string  // such as p99 ttft
	Unit  string  // "ms", or "share" of the requests
	Value float64 // in Unit
	Limit float64 // in Unit
	Met   bool
}

// Excess returns the ratio of a value to its limit: above 1 the objective is missed.
func (v *Value) Excess() float64 {
	switch {
	case v.Unit == "share" && v.Value <= 0:
		return 1e9
	case v.Unit == "share":
		return v.Limit / v.Value
	}
	return v.Value / v.Limit
}

// Run runs one point. A Run is called from several goroutines, and the same point gives the same measure.
type Run func(context.Context, Point) (Measure, error)
