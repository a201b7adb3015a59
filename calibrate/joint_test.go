package calibrate

import (
	"math"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/scheduler/timing"
)

// clientRuns returns runs of one simulated server at two loads. A client with a delay of 20 ms measured the runs.
func clientRuns(t *testing.T) []*Measured {
	t.Helper()
	var all []*Measured
	for i, gap := range []float64{1, 0.6} {
		m, err := Read(measure(t, 150), 0)
		if err != nil {
			t.Fatal(err)
		}
		m.Name, m.Client = []string{"slow", "fast"}[i], true
		for k := range m.Requests {
			m.Requests[k].Arrival *= gap
		}
		sim, err := newSimulation(m, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		p := truth()
		p.Graphs = m.Settings.Graphs
		var out Outcome
		if err := sim.Run(&p, &out, nil); err != nil {
			t.Fatal(err)
		}
		for k := range m.Requests {
			m.Requests[k].First, m.Requests[k].Last = out.First[k]+0.02, out.Last[k]+0.02
			m.Requests[k].Queued, m.Requests[k].Scheduled = math.NaN(), math.NaN()
		}
		all = append(all, m)
	}
	return all
}

// TestJointFit checks that two loads together determine the times between client and server. Each load is judged by a
// fit to the other load.
func TestJointFit(t *testing.T) {
	runs := clientRuns(t)
	r, err := RunAll(t.Context(), runs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if w := r.Profile.Way; w == nil || math.Abs(w.First-0.02) > 0.002 {
		t.Errorf("the way is %+v, want 20 ms before the first token", w)
	}
	held := 0
	for _, c := range r.Checks {
		if !c.HeldOut {
			continue
		}
		held++
		for _, e := range c.Errors {
			if math.Abs(e.Mean) > 0.05 {
				t.Errorf("%s, judged on %s: %s is %.1f %% off", c.Fitted, c.Judged, e.Metric, 100*e.Mean)
			}
		}
	}
	if held != 2 || r.Run != "slow, fast" {
		t.Errorf("%d sets of %s are held out, want both loads", held, r.Run)
	}
	runs[1].Settings.Model = "other"
	if _, err := RunAll(t.Context(), runs, Options{}); err == nil || !strings.Contains(err.Error(), "model of slow") {
		t.Errorf("%v for two models, want a refusal", err)
	}
}

// TestFloor checks that weights are not read faster than the memory allows.
func TestFloor(t *testing.T) {
	s := &measured.Settings{Engine: timing.Engine{GPU: "h100", Model: "/models/Qwen/Qwen3-14B", TensorParallel: 1}}
	floor := floorParameters(s)
	if floor.Weights < 7.2e-3 || floor.Weights > 8.2e-3 || floor.Token < 22e-6 || floor.Token > 28e-6 {
		t.Errorf("28 GB and 28 GFLOP a token of an H100 take at least %v and %v s", floor.Weights, floor.Token)
	}
	if p := measured.StartParameters(s); isBelow(&p, &floor) {
		t.Errorf("a search begins at %+v, below %+v", p, floor)
	}
	if s.Quantized = true; floorParameters(s).Weights != 0 {
		t.Error("weights of an unknown type have a bound")
	}
}

// TestHeldBack checks that a fit omits requests held back before the server while they are few.
func TestHeldBack(t *testing.T) {
	m := &Measured{Run: measured.Run{Client: true}}
	for i := range 40 {
		m.Requests = append(m.Requests, measured.Request{Arrival: float64(i), First: float64(i) + 0.1})
	}
	chosen := make([]int, 40)
	for i := range chosen {
		chosen[i] = i
	}
	m.Requests[7].First += 1
	if kept := m.withoutHeld(chosen); len(kept) != 39 {
		t.Errorf("%d of 40 are kept, want all but one", len(kept))
	}
	for i := 10; i < 13; i++ {
		m.Requests[i].First += 1
	}
	if kept := m.withoutHeld(chosen); len(kept) != 40 {
		t.Errorf("%d of 40 are kept where 4 waited, want all", len(kept))
	}
}

// TestSpreadOfOneRun checks that the spread of a fit to one run comes from fits to parts with enough requests. The
// notes name the limits of this spread.
func TestSpreadOfOneRun(t *testing.T) {
	runs := clientRuns(t)
	for _, c := range []struct {
		requests int
		cut      bool
		want     string
	}{{150, true, "between fits to parts of one run"}, {70, false, "that of residuals alone"}} {
		m := *runs[0]
		m.Requests = m.Requests[:c.requests]
		chosen := part{chosen: splitAll(&m)}.withoutWarmUp(&m)
		if !c.cut {
			chosen = chosen[:2*measured.Fewest-1]
		}
		tr := &trial{sim: new(Simulation), target: newTarget(&m, chosen)}
		tr.sim.rules = pickRules(&m.Settings)
		r := &Result{}
		if got := piecesOf(tr, 1); (got > 1) != c.cut {
			t.Errorf("%d requests are cut into %d pieces", len(chosen), got)
		}
		if r.noteSpreads([]*trial{tr}); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], c.want) {
			t.Errorf("%d requests: %q, want %q", len(chosen), r.Notes, c.want)
		}
		if r.noteSpreads([]*trial{tr, tr}); len(r.Notes) != 1 {
			t.Errorf("two runs: %q", r.Notes)
		}
	}
}

// splitAll returns all requests of a run.
func splitAll(m *Measured) []int {
	parts, _ := splitParts(m, 0)
	return parts[0].chosen
}
