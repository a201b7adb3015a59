package calibrate

import (
	"compress/gzip"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
)

// keptRuns returns the runs that TestAccuracyIsKept fits to and judges by. The runs come from a server that was
// simulated once, with effects of real servers that no form of a fit has. The server's passes and the times to the
// client scatter. Some passes stop for 20 ms, and in one minute everything is slower. `go test ./calibrate -run
// TestAccuracyIsKept -args -measure-again` makes the runs again. The flag -measure-again replaces the earlier
// results, so it can hide an error in the simulation.
func keptRuns() []keptRun {
	return []keptRun{
		{name: "rate-3", rate: 3, slowFrom: 60, slowTo: 110},
		{name: "rate-6", rate: 6},
		{name: "rate-9", rate: 9},
	}
}

var measureAgain = flag.Bool("measure-again", false, "simulate the runs of testdata/kept again")

type keptRun struct {
	name             string
	rate             float64 // requests/s
	slowFrom, slowTo float64 // s
}

// keptServer is the server of the kept runs.
type keptServer struct {
	disturbed
	draws *rand.Rand
}

func (k *keptServer) Step(s *timing.Step) float64 {
	ms := k.disturbed.Step(s) * (1 + 0.02*k.draws.NormFloat64())
	if k.draws.IntN(150) == 0 {
		ms += 20
	}
	return ms
}

// measure simulates the run and writes it.
func (k *keptRun) measure(t *testing.T, dir string) {
	t.Helper()
	m := &Measured{Run: measured.Run{Client: true}}
	var err error
	if m.Settings, err = measured.ReadServer(dir, nil); err != nil {
		t.Fatal(err)
	}
	draws := rand.New(rand.NewPCG(17, uint64(k.rate)))
	between := func(mean, sd, least, most float64) int {
		return int(min(max(mean+sd*draws.NormFloat64(), least), most))
	}
	for at := 0.0; at < 150; at += draws.ExpFloat64() / k.rate {
		m.Requests = append(m.Requests, measured.Request{
			Place: len(m.Requests), Arrival: at, Input: between(1024, 256, 256, 2048), Output: between(160, 60, 16, 400),
		})
	}
	sim, err := newSimulation(m, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	server := &keptServer{draws: draws, disturbed: disturbed{from: k.slowFrom, to: k.slowTo, more: 0.06, Parameters: timing.Parameters{
		Base: 0.8e-3, Weights: 12.2e-3, Token: 42e-6, Pair: 2.4e-9, Request: 9e-6, Context: 0.05e-6, Mixed: 0.085e-6, MixedBase: 1.1e-3, Knee: 2,
	}}}
	var out Outcome
	if err := sim.Run(server, &out, func(p *scheduler.Pass) { server.now = float64(p.End) / 1000 }); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "trace_data.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(f)
	fmt.Fprintln(packed, "request_id,server_input_tokens,output_tokens,arrival_time_us,send_time_us,first_chunk_time_us,last_chunk_time_us,status")
	for i, r := range m.Requests {
		us := func(s float64) int64 { return 1_700_000_000_000_000 + int64(1e6*s) }
		first := out.First[i] + 0.008 + 0.002*draws.ExpFloat64()
		last := max(first, out.Last[i]+0.008+0.002*draws.ExpFloat64())
		fmt.Fprintf(packed, "%d,%d,%d,%d,%d,%d,%d,ok\n", i, r.Input, r.Output, us(r.Arrival), us(r.Arrival), us(first), us(last))
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// keptBounds returns limits of relative errors, slightly above the errors when the runs were made. The means have
// three times these errors if the slow minute is not found.
func keptBounds() []keptBound {
	return []keptBound{
		{"all runs", "rate-3, all from 15 s on but from", 0.005, 0.015, 0.01},
		{"all runs", "rate-6, all", 0.005, 0.01, 0.01},
		{"all but rate-3", "rate-3, all from 15 s on but from", 0.007, 0.02, 0.01},
		{"all but rate-6", "rate-6, all", 0.015, 0.02, 0.03},
		{"all runs", "rate-9", 0.007, 0.02, 0.01},
	}
}

// keptBound is the limit for the checks of one fit. keptBound applies to sets with names that begin with a given
// text.
type keptBound struct {
	fitted, judged  string
	mean, ttft, p99 float64 // of TPOT and E2E; of the mean TTFT; of the p99 of TPOT
}

// missedBy returns the metrics with errors above the bound.
func (b *keptBound) missedBy(c *Check) (missed []string) {
	for _, e := range c.Errors {
		bound := b.mean
		if e.Metric == "TTFT" {
			bound = b.ttft
		}
		if !(math.Abs(e.Mean) <= bound) || e.Metric == "TPOT" && !(math.Abs(e.P99) <= b.p99) {
			missed = append(missed, fmt.Sprintf("%s %+.2f %%, p99 %+.2f %%", e.Metric, 100*e.Mean, 100*e.P99))
		}
	}
	return missed
}

// TestAccuracyIsKept checks fits to two loads of a server. Predictions of each load by the other load, and of a third
// load, must stay as good as when the runs were made.
func TestAccuracyIsKept(t *testing.T) {
	long.Only(t)
	var runs []*Measured
	for _, k := range keptRuns() {
		dir := filepath.Join("testdata", "kept", k.name)
		if *measureAgain {
			k.measure(t, dir)
		}
		m, err := Read(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, m)
	}
	r, err := RunAll(t.Context(), runs[:2], Options{})
	if err != nil {
		t.Fatal(err)
	}
	sim, err := newSimulation(runs[2], nil, false)
	if err != nil {
		t.Fatal(err)
	}
	out := Outcome{Way: *r.Profile.Way}
	if err := sim.Run(&r.Profile.Parameters, &out, nil); err != nil {
		t.Fatal(err)
	}
	all, _ := splitParts(runs[2], 0)
	checks := append(r.Checks, Check{Fitted: "all runs", Judged: "rate-9", Errors: judgeOutcome(runs[2], all[0].withoutWarmUp(runs[2]), &out)})
	for _, b := range keptBounds() {
		at := slices.IndexFunc(checks, func(c Check) bool { return c.Fitted == b.fitted && strings.HasPrefix(c.Judged, b.judged) })
		if at < 0 {
			t.Errorf("%s is not judged on %s", b.fitted, b.judged)
		} else if missed := b.missedBy(&checks[at]); len(missed) > 0 {
			t.Errorf("fitted on %s, judged on %s: %s; want %+v", b.fitted, checks[at].Judged, missed, b)
		}
	}
}
