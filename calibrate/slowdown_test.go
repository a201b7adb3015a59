package calibrate

import (
	"math"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
)

// disturbed is a server with passes that take longer for some time.
type disturbed struct {
	timing.Parameters
	now, from, to float64 // s
	more          float64
}

func (d *disturbed) Step(s *timing.Step) float64 {
	if d.now >= d.from && d.now < d.to {
		return (1 + d.more) * d.Parameters.Step(s)
	}
	return d.Parameters.Step(s)
}

// disturbedRun returns a client's run of a server that was 8 % slower for 40 s.
func disturbedRun(t *testing.T) *Measured {
	t.Helper()
	m, err := Read(measure(t, 900), 0)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := newSimulation(m, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	d := &disturbed{Parameters: truth(), from: 40, to: 80, more: 0.08}
	d.Graphs = m.Settings.Graphs
	var out Outcome
	if err := sim.Run(d, &out, func(p *scheduler.Pass) { d.now = float64(p.End) / 1000 }); err != nil {
		t.Fatal(err)
	}
	m.Client = true
	for i := range m.Requests {
		r := &m.Requests[i]
		r.First, r.Last = out.First[i]+0.02, out.Last[i]+0.02
		r.Queued, r.Scheduled = math.NaN(), math.NaN()
	}
	return m
}

// TestSlowdownIsExcluded checks that a fit leaves out the time of a disturbed server and names it.
func TestSlowdownIsExcluded(t *testing.T) {
	long.Only(t)
	m := disturbedRun(t)
	r, err := Run(t.Context(), m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "from 35 to 75 s requests waited ") { // windows of 10 s
		t.Errorf("notes are %q, want the time of 40 to 80 s among them", r.Notes)
	}
	rest := 0
	for _, c := range r.Checks {
		if strings.Contains(c.Judged, " but from") {
			rest++
			for _, e := range c.Errors {
				if math.Abs(e.Mean) > 0.01 {
					t.Errorf("%s: %s is %.1f %% off outside of that time", c.Judged, e.Metric, 100*e.Mean)
				}
			}
		}
	}
	if rest == 0 {
		t.Error("nothing is judged without that time")
	}
}

// TestSlowdownOfClosedLoop checks that a closed loop has no slowdowns. The replay of a closed loop has other concurrent
// requests, so the replay does not show the state of the server at that time.
func TestSlowdownOfClosedLoop(t *testing.T) {
	m := disturbedRun(t)
	sim, err := newSimulation(m, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	p, out := truth(), Outcome{}
	p.Graphs = m.Settings.Graphs
	if err := sim.Run(&p, &out, nil); err != nil {
		t.Fatal(err)
	}
	all, _ := splitParts(m, 0)
	if s := m.slowdownOf(all[0].chosen, &out); s.more == 0 {
		t.Error("no slowdown of the run with a server that was slower for 40 s")
	}
	m.InFlight = 4
	if s := m.slowdownOf(all[0].chosen, &out); s.more > 0 {
		t.Errorf("a slowdown %s of a closed loop", &s)
	}
}

func TestFindSlowdown(t *testing.T) {
	run := func(seconds, perSecond int, slow func(at float64) float64) (arrivals, values []float64) {
		for i := range seconds * perSecond {
			at := float64(i) / float64(perSecond)
			arrivals = append(arrivals, at)
			values = append(values, slow(at)+0.02*math.Sin(float64(i*i)))
		}
		return arrivals, values
	}
	block := func(from, to, by float64) func(float64) float64 {
		return func(at float64) float64 {
			if at >= from && at < to {
				return by
			}
			return 0
		}
	}
	for name, c := range map[string]struct {
		seconds int
		slow    func(float64) float64
		want    slowdown
	}{
		"even":                   {400, func(float64) float64 { return 0.3 }, slowdown{}},
		"slower for a while":     {400, block(100, 250, 0.05), slowdown{from: 100, to: 250, more: 0.05}},
		"faster for a while":     {400, block(100, 250, -0.05), slowdown{from: 100, to: 250, apart: true, more: 0.05}},
		"slower to the end":      {400, block(300, 400, 0.04), slowdown{from: 300, to: 400, more: 0.04}},
		"slower by little":       {400, block(100, 250, 0.02), slowdown{}},
		"slower for a moment":    {400, block(100, 110, 0.2), slowdown{}},
		"too short to tell":      {50, block(20, 40, 0.2), slowdown{}},
		"hours, slower for some": {20000, block(5000, 9000, 0.05), slowdown{from: 5000, to: 9000, more: 0.05}},
	} {
		got := findSlowdown(run(c.seconds, 6, c.slow))
		if got.apart != c.want.apart || math.Abs(got.from-c.want.from) > float64(c.seconds)/100 || math.Abs(got.more-c.want.more) > 0.01 || math.Abs(got.to-c.want.to) > float64(c.seconds)/100 {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got := findSlowdown(nil, nil); got.more != 0 {
		t.Errorf("nothing is slow %+v", got)
	}
}
