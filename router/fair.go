package router

import (
	"math"

	"github.com/replay-llm/replay/sim"
)

// ClassTerms is the weight and the deadline of a class for a router.
type ClassTerms struct {
	Name     string
	Weight   float64  // share of the service relative to other classes, > 0; 0: 1
	Deadline sim.Time // from arrival to the first token, > 0; 0: none
}

// WeightOf returns the weight of a class, 1 for an unknown class.
func WeightOf(terms []ClassTerms, class int32) float64 {
	if int(class) < len(terms) && terms[class].Weight > 0 {
		return terms[class].Weight
	}
	return 1
}

// DeadlineOf returns the time from arrival to the deadline of the first token for a class. The result is infinite if
// the class has no deadline.
func DeadlineOf(terms []ClassTerms, class int32) float64 {
	if int(class) < len(terms) && terms[class].Deadline > 0 {
		return float64(terms[class].Deadline)
	}
	return math.Inf(1)
}

// dueOf returns the instant of the deadline of a request's first token.
func dueOf(terms []ClassTerms, q *sim.Request) float64 {
	return float64(q.Arrived) + DeadlineOf(terms, q.Class)
}

// fairness shares the service between classes by their weights, as start-time fair queueing does
// (docs/rules/router.md, The queue). Each request has a start tag, and the request with the smallest tag is placed
// first.
type fairness struct {
	virtual float64   // start tag of the latest request that was placed
	finish  []float64 // by class: finish tag of its latest request
}

// startOf returns the start tag of the next request of a class.
func (f *fairness) startOf(class int32) float64 {
	if int(class) >= len(f.finish) {
		return f.virtual
	}
	return max(f.virtual, f.finish[class])
}

// tag returns the start tag of a request with the given cost in tokens, and advances the finish tag of its class.
func (f *fairness) tag(class int32, cost, weight float64) float64 {
	for int(class) >= len(f.finish) {
		f.finish = append(f.finish, 0)
	}
	start := f.startOf(class)
	f.finish[class] = start + cost/weight
	return start
}

// serve records that the request with the given start tag is placed.
func (f *fairness) serve(start float64) { f.virtual = max(f.virtual, start) }
