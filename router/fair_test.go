package router

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/sim"
)

// inOrder is a policy that holds requests, in a queue order, while its worker has tokens to compute.
type inOrder QueueOrder

func (o inOrder) Needs() Needs {
	return Needs{Running: true, Tokens: true, Hold: &Hold{Order: QueueOrder(o)}}
}

func (inOrder) Choose(*sim.Request, *Candidates) Choice { return Choice{Second: None} }

// server is a dispatcher of one worker that serves one request at a time.
type server struct {
	*Dispatcher
	t    *testing.T
	now  sim.Time
	next sim.RequestID
	on   *sim.Request // the request on the worker
}

func newServer(t *testing.T, o QueueOrder, classes []ClassTerms) *server {
	return &server{Dispatcher: New(Options{Policy: inOrder(o), Workers: 1, Classes: classes}), t: t}
}

// arrive routes a new request.
func (s *server) arrive(class int32, tokens int) *sim.Request {
	q := &sim.Request{ID: s.next, Class: class, InputTokens: tokens, Arrived: s.now}
	s.next++
	placed, err := s.Route(s.now, q, nil)
	s.take(placed, err)
	return q
}

// serve ends the request on the worker and returns the next request on it, nil if there is none.
func (s *server) serve() *sim.Request {
	done := s.on
	s.on = nil
	placed, err := s.Finished(s.now, done.ID, nil)
	s.take(placed, err)
	return s.on
}

func (s *server) take(placed []Placement, err error) {
	if err != nil || len(placed) > 1 || len(placed) == 1 && s.on != nil {
		s.t.Fatalf("placed %v beside %v, error %v", placed, s.on, err)
	}
	if len(placed) == 1 {
		s.on = placed[0].Request
	}
}

// TestWeightedShares checks that no class starves. While two classes have requests waiting, their service divided by
// their weights differs by a limited amount. The limit is the sum, over both classes, of the largest request divided
// by the weight.
func TestWeightedShares(t *testing.T) {
	for seed := range uint64(30) {
		r := sim.NewRand(seed, "shares")
		terms, largest := randomClasses(r)
		s := newServer(t, WFQ, terms)
		waiting := make([]int, len(terms))
		fill := func() {
			for c := range terms {
				for waiting[c] < 3 {
					s.arrive(int32(c), 1+r.IntN(largest[c]))
					waiting[c]++
				}
			}
		}
		s.arrive(0, 1)
		fill()
		served := make([]float64, len(terms)) // service by class, divided by the weight
		var lows, highs [4][4]float64         // minimum and maximum difference so far
		for range 3000 {
			q := s.serve()
			waiting[q.Class]--
			fill()
			served[q.Class] += float64(q.InputTokens) / terms[q.Class].Weight
			for a := range terms {
				for b := range a {
					d := served[a] - served[b]
					lows[a][b], highs[a][b] = min(lows[a][b], d), max(highs[a][b], d)
					bound := float64(largest[a])/terms[a].Weight + float64(largest[b])/terms[b].Weight
					if highs[a][b]-lows[a][b] > bound*(1+1e-9) {
						t.Fatalf("seed %d: the shares of classes %d and %d have come apart by %v, want at most %v", seed, a, b, highs[a][b]-lows[a][b], bound)
					}
				}
			}
		}
	}
}

// randomClasses draws the weights and the largest requests of two to four classes.
func randomClasses(r *rand.Rand) (terms []ClassTerms, largest []int) {
	for range 2 + r.IntN(3) {
		terms = append(terms, ClassTerms{Weight: math.Exp2(float64(r.IntN(13) - 6))})
		largest = append(largest, 1+r.IntN(5000))
	}
	return terms, largest
}

// TestEarliestDeadline checks that the waiting request with the earliest deadline is served first, and among equals
// the earliest arrival.
func TestEarliestDeadline(t *testing.T) {
	for seed := range uint64(30) {
		r := sim.NewRand(seed, "deadlines")
		terms := []ClassTerms{{Deadline: 100}, {Deadline: 30}, {}, {Deadline: 70}}
		s := newServer(t, EDF, terms)
		s.arrive(0, 1)
		waiting := map[*sim.Request]bool{}
		for range 2000 {
			s.now += sim.Time(r.IntN(3) * 10)
			if len(waiting) == 0 || r.IntN(2) == 0 {
				waiting[s.arrive(int32(r.IntN(len(terms)+1)), 1+r.IntN(9))] = true // includes an unknown class
				continue
			}
			q := s.serve()
			for x := range waiting {
				if dx, dq := dueOf(terms, x), dueOf(terms, q); dx < dq || dx == dq && x.ID < q.ID {
					t.Fatalf("seed %d: request %d, due at %v, goes before %d, due at %v", seed, q.ID, dq, x.ID, dx)
				}
			}
			delete(waiting, q)
		}
	}
}

// TestWithdrawnShares checks that withdrawn requests leave the tags of the remaining requests unchanged.
func TestWithdrawnShares(t *testing.T) {
	s := newServer(t, WFQ, []ClassTerms{{Weight: 1}, {Weight: 2}})
	s.arrive(0, 10)
	a, b, c := s.arrive(0, 10), s.arrive(0, 10), s.arrive(1, 30) // start tags 10, 20 and 0
	d := s.arrive(1, 1)                                          // start tag 15
	if !s.Withdraw(a.ID) {
		t.Fatal("not held")
	}
	for i, want := range []*sim.Request{c, d, b} {
		if q := s.serve(); q != want {
			t.Fatalf("placed %v as number %d, want %v", q, i, want)
		}
	}
}
