package calibrate

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestPolish checks that polishMeans moves means closer to the measured ones if possible, and never farther away.
func TestPolish(t *testing.T) {
	m, err := Read(measure(t, 200), 0)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := newSimulation(m, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := splitParts(m, 0)
	aim := newTarget(m, all[0].withoutWarmUp(m))
	s := newSearch(t.Context(), []*Simulation{sim}, []*target{aim})
	s.start, s.form = truth(), plainForms()[1]
	s.start.Graphs = m.Settings.Graphs
	far, near := 0.0, 0.0
	for i := range 4 {
		from := point{u: make([]float64, 4)}
		from.u[i] = 0.02
		from.loss = s.loss(from.u)
		before := s.misses()
		to := s.polishMeans(from)
		if s.err != nil {
			t.Fatal(s.err)
		}
		s.loss(to.u)
		after := s.misses()
		if normOf(after) > normOf(before) {
			t.Errorf("parameter %d: means are off by %v after a polish, %v before", i, after, before)
		}
		far, near = far+normOf(before), near+normOf(after)
	}
	if near >= far {
		t.Errorf("means are off by %v after four polishes as before", near)
	}
	// Exact means stay unchanged.
	exact := point{u: make([]float64, 4)}
	exact.loss = s.loss(exact.u)
	if to := s.polishMeans(exact); s.err != nil || to.u[0] != 0 || to.u[3] != 0 {
		t.Errorf("the server's own parameters moved to %v, %v", to.u, s.err)
	}
}

// TestCheapest checks that the cheapest step corrects the misses. If two parameters have the same effects, the step
// changes the one that costs less.
func TestCheapest(t *testing.T) {
	curvature := mat.NewSymDense(4, []float64{1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 100})
	effects := mat.NewDense(3, 4, []float64{1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 2, 0})
	step := cheapestStep(curvature, effects, []float64{0.01, -0.02, 0.03})
	want := []float64{0.01, -0.02, 0.015, 0.0001}
	for a := range want {
		if len(step) != len(want) || math.Abs(step[a]-want[a]) > 0.02*math.Abs(want[a]) {
			t.Fatalf("step %v, want %v, give or take 2 %%", step, want)
		}
	}
	if step := cheapestStep(curvature, effects, []float64{0, 5, 0}); step != nil {
		t.Errorf("step %v, want none where it would be so long", step)
	}
}
