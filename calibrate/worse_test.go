package calibrate

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/long"
)

// TestWorseFit checks that a fit is refused if its errors are larger than those of the scaled data sheets, on fitted
// and on held-out runs.
func TestWorseFit(t *testing.T) {
	runs := clientRuns(t)
	all, err := listTrainings(runs, 0)
	if err != nil {
		t.Fatal(err)
	}
	var sims []*Simulation
	for _, m := range runs {
		sim, err := newSimulation(m, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		sims = append(sims, sim)
	}
	seen, targets := targetsOf(sims, runs, all[0].on)
	s := newSearch(t.Context(), seen, targets)
	form := s.plainForms()[0]
	for _, c := range []struct {
		training int
		slower   float64
		refused  bool
	}{{0, 1, false}, {0, 40, true}, {1, 1, false}, {1, 40, true}} {
		p := truth()
		p.Graphs = runs[0].Settings.Graphs
		p.Weights *= c.slower
		f := &fitted{candidate: candidate{form: form}, parameters: p, start: s.start}
		f.way.First = 0.02
		r := &Result{}
		if err := r.addChecks(sims, runs, f, &all[c.training], &all[0]); err != nil {
			t.Fatal(err)
		}
		for i := range r.Checks { // shares of a set that counts as a whole do not decide
			if at := &r.Checks[i]; strings.Contains(at.Judged, "all, ") {
				at.Errors = []Errors{{Metric: "TTFT", Mean: 1000}}
			}
		}
		err := f.checkStart(t.Context(), sims, runs, &all[c.training], r.Checks)
		var worse *WorseError
		if errors.As(err, &worse) != c.refused || !c.refused && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if c.refused && !(worse.Off > 1 && math.Abs(worse.Start) < worse.Off) {
			t.Errorf("%+v: %+v", c, worse)
		}
	}
}

// TestVerdict checks that known anomalies of a held-out set do not decide the verdict, and that the verdict names the
// deciding set.
func TestVerdict(t *testing.T) {
	set := func(known string, mean float64) Check {
		return Check{Fitted: "rate-5", Judged: "rate-8, all", HeldOut: true, Known: known, Errors: []Errors{{Metric: "TTFT", Mean: 0.01}, {Metric: "TPOT", Mean: mean}}}
	}
	for _, c := range []struct {
		checks []Check
		holds  bool
		want   string
	}{
		{[]Check{set("", 0.01), set("its server was disturbed for a time", 0.3)}, true, "are within 5 %"},
		{[]Check{set("", 0.07), set("", 0.02)}, false, "mean TPOT on rate-8, all, +7.0 %, of the fit to rate-5"},
		{[]Check{set("its server was slow", 0.3)}, false, "do not show"},
	} {
		r := &Result{Checks: c.checks}
		if got, _ := r.Verdict(); r.Holds() != c.holds || !strings.Contains(got, c.want) {
			t.Errorf("%v, %q, want %q", r.Holds(), got, c.want)
		}
	}
}

// delayRuns delays the requests of runs on their way, each by a different time.
func delayRuns(runs []*Measured) []*Measured {
	rng := rand.New(rand.NewPCG(3, 5))
	for _, m := range runs {
		for k := range m.Requests {
			late := 0.12 * rng.ExpFloat64()
			m.Requests[k].First, m.Requests[k].Last = m.Requests[k].First+late, m.Requests[k].Last+late
		}
	}
	return runs
}

// TestSlowRunOfThree checks that one slow run among three is found when the times to a client also scatter. Equally
// fast runs have none.
func TestSlowRunOfThree(t *testing.T) {
	all := [][]float64{{1, 1, 1 / 1.1}, {1, 1, 1}, {1 / 1.1, 1, 1}}
	for _, speeds := range all[:long.Cases(1, len(all))] {
		r, err := RunAll(t.Context(), delayRuns(pacedRuns(t, speeds...)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%v: %+v", speeds, r.Profile.Slow)
		want := 0
		for i, speed := range speeds {
			if speed == 1 {
				continue
			}
			want++
			if got := r.Profile.Slow; len(got) != 1 || got[0].Run != []string{"run-0", "run-1", "run-2"}[i] || math.Abs(got[0].Share-0.1) > 0.025 {
				t.Errorf("%v: slow runs are %+v", speeds, got)
			}
		}
		if want == 0 && r.Profile.Slow != nil {
			t.Errorf("%v: slow runs are %+v, want none", speeds, r.Profile.Slow)
		}
	}
}
