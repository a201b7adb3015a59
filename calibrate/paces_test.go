package calibrate

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler/timing"
)

// pacedRuns returns a client's runs of simulated servers with the given speeds, at two loads.
func pacedRuns(t *testing.T, speeds ...float64) (all []*Measured) {
	t.Helper()
	for i, speed := range speeds {
		m, err := Read(measure(t, 150), 0)
		if err != nil {
			t.Fatal(err)
		}
		m.Name, m.Client = fmt.Sprintf("run-%d", i), true
		for k := range m.Requests {
			r := &m.Requests[k]
			r.Arrival = r.Arrival*[]float64{1.4, 1}[i%2] + 0.03*math.Sin(float64(k*(i+3)))
			r.Arrival = max(r.Arrival, 0)
			if k > 0 {
				r.Arrival = max(r.Arrival, m.Requests[k-1].Arrival)
			}
		}
		sim, err := newSimulation(m, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		sim.pace = speed
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

// TestSlowRun checks that one run of several on a slow server is found, and that it does not change the fit to all
// runs.
func TestSlowRun(t *testing.T) {
	long.Only(t)
	r, err := RunAll(t.Context(), pacedRuns(t, 1, 1, 1/1.1, 1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v, %q", r.Profile.Slow, r.Notes)
	if got := r.Profile.Slow; len(got) != 1 || got[0].Run != "run-2" || got[0].Server != "" || math.Abs(got[0].Share-0.1) > 0.01 {
		t.Errorf("slow runs are %+v, want the third by 10 %%", got)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "run-2: its passes took ") {
		t.Errorf("notes are %q", r.Notes)
	}
	was := truth()
	step := timing.Step{Tokens: 8, Requests: 8, Context: 2400}
	if got := r.Profile.Parameters.Step(&step) / was.Step(&step); math.Abs(got-1) > 0.01 {
		t.Errorf("a pass takes %+.1f %% longer than an ordinary server's", 100*(got-1))
	}
	held := 0
	for _, c := range r.Checks {
		tpot := c.Errors[1]
		t.Logf("%s, on %s: %+.2f %%", c.Fitted, c.Judged, 100*tpot.Mean)
		if strings.Contains(c.Judged, "slower, replayed as an ordinary one)") && c.HeldOut {
			held++
			if tpot.Mean > -0.08 {
				t.Errorf("%s, on %s: TPOT is %+.1f %% off, want that of an ordinary server", c.Fitted, c.Judged, 100*tpot.Mean)
			}
		} else if math.Abs(tpot.Mean) > 0.015 {
			t.Errorf("%s, on %s: TPOT is %+.1f %% off", c.Fitted, c.Judged, 100*tpot.Mean)
		}
	}
	if held == 0 {
		t.Error("nothing says that the slow run was held out")
	}
}

// TestRunsAlike checks that runs of equally fast servers have no paces.
func TestRunsAlike(t *testing.T) {
	runs := pacedRuns(t, 1, 1, 1)
	r, err := RunAll(t.Context(), runs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Profile.Slow != nil {
		t.Errorf("slow are %+v, want none", r.Profile.Slow)
	}
}
