package router

import (
	"math"
	"testing"

	"github.com/replay-llm/replay/sim"
)

// first is a policy with a gate that chooses the first worker.
type first struct{}

func (first) Needs() Needs {
	return Needs{Running: true, Metrics: true, Gate: &Gate{Queue: 5, KV: 0.8, Each: 1}}
}

func (first) Choose(_ *sim.Request, c *Candidates) Choice {
	return Choice{Worker: c.Workers[0], Second: None}
}

// gated is a dispatcher of one worker behind a gate, with its placements.
type gated struct {
	*testing.T
	d      *Dispatcher
	placed []Placement
}

func newGated(t *testing.T) *gated {
	return &gated{t, New(Options{Policy: first{}, Workers: 1}), nil}
}

func (g *gated) arrive(at sim.Time, id sim.RequestID, priority int32) {
	g.Helper()
	var err error
	if g.placed, err = g.d.Route(at, &sim.Request{ID: id, Priority: priority, InputTokens: 1, OutputTokens: 1}, g.placed); err != nil {
		g.Fatal(err)
	}
}

func (g *gated) report(at sim.Time, m Metrics) {
	g.Helper()
	var err error
	if g.placed, err = g.d.Measure(at, 0, m, g.placed); err != nil {
		g.Fatal(err)
	}
}

func (g *gated) want(ids ...sim.RequestID) {
	g.Helper()
	if len(g.placed) != len(ids) {
		g.Fatalf("%d requests are placed, want %v", len(g.placed), ids)
	}
	for i, id := range ids {
		if g.placed[i].Request.ID != id {
			g.Errorf("placed %d: request %d, want %v", i, g.placed[i].Request.ID, ids)
		}
	}
}

// TestGate checks a gate by metrics, which the router reads at intervals. Until the first read no request is held.
// Held requests are released by priority, then in order of arrival, one per ms, after the metrics allow it.
func TestGate(t *testing.T) {
	g := newGated(t)
	g.arrive(1, 0, 2)
	g.report(10, Metrics{Running: 1, KV: 0.9})
	g.arrive(60, 1, 2) // the report is read at 150
	g.want(0, 1)
	g.arrive(151, 2, 2)
	g.arrive(152, 3, 0)
	g.arrive(153, 4, 0)
	g.want(0, 1)
	if n := g.d.Queued(); n != 3 {
		t.Fatalf("%d are held, want 3", n)
	}
	g.report(200, Metrics{Running: 1, Waiting: 1, KV: 0.5})
	g.report(300, Metrics{Running: 1, Waiting: 1, KV: 0.5})
	g.want(0, 1, 3) // the first is released at 300, when the report of 200 is read
	g.report(301, Metrics{Running: 1, Waiting: 9, KV: 0.5})
	g.report(340, Metrics{Running: 1, Waiting: 9, KV: 0.5})
	g.want(0, 1, 3, 4, 2)
	g.arrive(460, 5, 0) // nine requests wait
	g.want(0, 1, 3, 4, 2)
	g.report(470, Metrics{})
	g.want(0, 1, 3, 4, 2, 5) // all workers are idle and will not report again
}

// TestSaturated checks that half of the queue and half of the cache do not saturate a worker. A gate also stays open
// if one of two workers is saturated.
func TestSaturated(t *testing.T) {
	d := New(Options{Policy: first{}, Workers: 2})
	for i, c := range []struct {
		one, other Metrics
		want       bool
	}{
		{Metrics{Waiting: 4, KV: 0.79}, Metrics{Waiting: 4, KV: 0.79}, false}, {Metrics{Waiting: 5}, Metrics{KV: 0.8}, true},
		{Metrics{Waiting: 9}, Metrics{}, false}, {Metrics{Waiting: 10}, Metrics{}, true},
	} {
		d.seen.Metrics[0], d.seen.Metrics[1] = c.one, c.other
		if got := d.isShut(0); got != c.want {
			t.Errorf("case %d: saturated %v", i, got)
		}
	}
}

// toFirst is the policy first with a given gate.
type toFirst struct {
	first
	gate Gate
}

func (p toFirst) Needs() Needs {
	return Needs{Running: true, Tokens: true, Metrics: true, Gate: &p.gate}
}

// gateOf returns newGated with a given gate.
func gateOf(t *testing.T, g Gate) *gated {
	g.Each = 1
	return &gated{t, New(Options{Policy: toFirst{gate: g}, Workers: 1}), nil}
}

func (g *gated) finish(at sim.Time, id sim.RequestID) {
	g.Helper()
	var err error
	if g.placed, err = g.d.Finished(at, id, g.placed); err != nil {
		g.Fatal(err)
	}
}

// TestGateByRequests checks that a gate by requests opens when a request leaves, and releases one request per ms
// until it is full.
func TestGateByRequests(t *testing.T) {
	g := gateOf(t, Gate{Requests: 2})
	for id := range sim.RequestID(5) {
		g.arrive(10, id, 0)
	}
	g.want(0, 1)
	g.finish(20, 0)
	g.want(0, 1, 2)
	g.finish(20.5, 1)
	g.want(0, 1, 2) // the next request is released at 21
	g.report(21, Metrics{Running: 1})
	g.want(0, 1, 2, 3)
	g.report(300, Metrics{})
	g.want(0, 1, 2, 3, 4) // the worker reports that it is idle
}

// TestGateByTokens checks that a gate by tokens counts the tokens to compute. If Requests is also set, the larger
// quotient counts.
func TestGateByTokens(t *testing.T) {
	g := gateOf(t, Gate{Tokens: 2, Requests: 9})
	for id := range sim.RequestID(3) {
		g.arrive(10, id, 0)
	}
	g.want(0, 1)
	var err error
	if g.placed, err = g.d.PrefillDone(15, 0, g.placed); err != nil {
		t.Fatal(err)
	}
	g.want(0, 1, 2)
}

// TestUnseenRequests checks that requests that metrics do not show yet count as waiting if Unseen is set.
func TestUnseenRequests(t *testing.T) {
	for _, unseen := range []bool{false, true} {
		g := gateOf(t, Gate{Queue: 2, KV: 1, Unseen: unseen})
		for id := range sim.RequestID(3) {
			g.arrive(10, id, 0)
		}
		if g.want(map[bool][]sim.RequestID{false: {0, 1, 2}, true: {0, 1}}[unseen]...); t.Failed() {
			t.Fatalf("unseen %v", unseen)
		}
	}
}

// TestCeilings checks a ceiling per priority: less urgent requests are held first, and an urgent request passes them.
func TestCeilings(t *testing.T) {
	g := gateOf(t, Gate{Requests: 4, Ceilings: &Ceilings{Least: 0.5, Most: 1}})
	g.arrive(1, 0, 0)
	g.arrive(1, 1, 7)
	g.arrive(1, 2, 7) // half of the allowed requests run
	g.arrive(2, 3, 0)
	g.want(0, 1, 3)
	g.finish(3, 0)
	g.want(0, 1, 3)
	g.finish(4, 1)
	g.want(0, 1, 3, 2)

	seen := []int32{-2, 0, 6}
	for _, c := range []struct {
		ceilings *Ceilings
		want     [3]float64
	}{
		{nil, [3]float64{1, 1, 1}},
		{&Ceilings{Least: 0.4, Most: 0.8}, [3]float64{0.8, 0.6000000000000001, 0.4}},
		{&Ceilings{Least: 0.4, Most: 0.8, ByValue: true}, [3]float64{0.8, 0.7000000000000001, 0.4}},
		{&Ceilings{Of: []Ceiling{{-2, 0.9}, {6, 0.1}}}, [3]float64{0.9, 0, 0.1}},
	} {
		for i, p := range seen {
			if got := c.ceilings.ceiling(p, seen); math.Abs(got-c.want[i]) > 1e-12 {
				t.Errorf("%+v: priority %d has %v, want %v", c.ceilings, p, got, c.want[i])
			}
		}
	}
	if got := (&Ceilings{Most: 0.7}).ceiling(3, []int32{3}); got != 0.7 {
		t.Errorf("of one priority %v, want 0.7", got)
	}
}
