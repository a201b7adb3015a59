package router

import (
	"math"

	"github.com/replay-llm/replay/sim"
)

// ClassTerms is what a router may know of a class.
type ClassTerms struct {
	Name     string
	Weight   float64  // share of the service relative to other classes, > 0; 0: 1
	Deadline sim.Time // from arrival to the first token, > 0; 0: none
}

// WeightOf returns the share of a class, which a router may never have heard of.
func WeightOf(terms []ClassTerms, class int32) float64 {
	if int(class) < len(terms) && terms[class].Weight > 0 {
		return terms[class].Weight
	}
	return 1
}

// DeadlineOf returns how long after its arrival a request of a class wants its first token, endless where
// the class has no deadline.
func DeadlineOf(terms []ClassTerms, class int32) float64 {
	if int(class) < len(terms) && terms[class].Deadline > 0 {
		return float64(terms[class].Deadline)
	}
	return math.Inf(1)
}

// dueOf returns until when a request wants its first token.
func dueOf(terms []ClassTerms, q *sim.Request) float64 {
	return float64(q.Arrived) + DeadlineOf(terms, q.Class)
}

// fairness shares the service between classes by their weights, as start-time fair queueing does
// (docs/rules/router.md, The queue). Each request has a start tag, and the least goes first.
type fairness struct {
	virtual float64   // the start tag of the latest request that was placed
	finish  []float64 // by class: the finish tag of its latest request
}

// startOf returns the start tag of the next request of a class.
func (f *fairness) startOf(class int32) float64 {
	if int(class) >= len(f.finish) {
		return f.virtual
	}
	return max(f.virtual, f.finish[class])
}

// tag returns the start tag of a request that costs n tokens.
func (f *fairness) tag(class int32, cost, weight float64) float64 {
	for int(class) >= len(f.finish) {
		f.finish = append(f.finish, 0)
	}
	start := f.startOf(class)
	f.finish[class] = start + cost/weight
	return start
}

// serve notes that the request with a start tag is placed.
func (f *fairness) serve(start float64) { f.virtual = max(f.virtual, start) }
