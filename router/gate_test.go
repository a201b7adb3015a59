package router

import (
	"testing"

	"github.com/replay-llm/replay/sim"
)

// first takes the first worker, behind a gate.
type first struct{}

func (first) Needs() Needs {
	return Needs{Running: true, Metrics: true, Gate: &Gate{Queue: 5, KV: 0.8, Each: 1}}
}

func (first) Choose(_ *sim.Request, c *Candidates) Choice {
	return Choice{Worker: c.Workers[0], Second: None}
}

// gated is a dispatcher of one worker behind a gate, and what it has placed.
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

// Metrics are those of the last reading, and older than it: until then nobody is held. What is
// held goes by priority, then as it came, one each ms, once the metrics allow it.
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
	g.want(0, 1, 3) // the first at 300, when the report of 200 is read
	g.report(301, Metrics{Running: 1, Waiting: 9, KV: 0.5})
	g.report(340, Metrics{Running: 1, Waiting: 9, KV: 0.5})
	g.want(0, 1, 3, 4, 2)
	g.arrive(460, 5, 0) // nine wait
	g.want(0, 1, 3, 4, 2)
	g.report(470, Metrics{})
	g.want(0, 1, 3, 4, 2, 5) // all is over: nobody will report any more
}

// Half of the queue and half of the cache are no saturation, nor are two workers of which one
// is.
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
		if got := d.isSaturated(); got != c.want {
			t.Errorf("case %d: saturated %v", i, got)
		}
	}
}
