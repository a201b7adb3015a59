package calibrate

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// TestEffects checks that the effect of the weights on a pass that only reads them is the whole pass. For an instant
// during a pass, the completed part counts.
func TestEffects(t *testing.T) {
	p := timing.Parameters{Weights: 2, Token: 1, Knee: 1}
	step := timing.Step{Tokens: 3}
	passes := []stretch{{0, 1, step, 1}, {1, 3, step, 1}, {5, 6, step, 1}}
	e := newEffects(passes, &p, &Form{Fields: plainForms()[0].Fields[:2]})
	for _, c := range []struct{ at, weights float64 }{{0, 0}, {0.5, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 4}, {5.5, 5}, {9, 6}} {
		if got := e.at(0, e.find(c.at)); !near(got, c.weights) {
			t.Errorf("by %v s the weights took %v s, want %v", c.at, got, c.weights)
		}
		if got := e.at(1, e.find(c.at)); !near(got, 1.5*c.weights) {
			t.Errorf("by %v s the tokens took %v s, want %v", c.at, got, 1.5*c.weights)
		}
	}
}

// TestLedgerOfRuns checks that the work of each pass is recorded as if passes were executed one by one. Recording
// must not change any result.
func TestLedgerOfRuns(t *testing.T) {
	m, err := Read(measure(t, 60), 0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSimulation(m, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	p := truth()
	var single, runs Outcome
	passes, record := 0, new(ledger)
	if err := s.Run(&p, &single, func(*scheduler.Pass) { passes++ }); err != nil {
		t.Fatal(err)
	}
	if err := s.runRecorded(&p, &runs, record); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(single.First, runs.First) || !slices.Equal(single.Last, runs.Last) || single.Passes != passes || runs.Passes != passes {
		t.Errorf("%d and %d passes of %d, or other times", single.Passes, runs.Passes, passes)
	}
	all := record.engines[0]
	if len(all) != passes {
		t.Fatalf("%d passes are remembered, want %d", len(all), passes)
	}
	for i, x := range all {
		if lasts := p.Step(&x.step) / 1000; math.Abs(x.end-x.start-lasts) > 2e-9 || i > 0 && x.start < all[i-1].end {
			t.Fatalf("pass %d from %v to %v s computes what takes %v s", i, x.start, x.end, lasts)
		}
	}
}

// fullPass returns a pass of 10 ms with 3 requests, one of which computes its prompt.
func fullPass() *scheduler.Pass {
	p := &scheduler.Pass{Start: 5, End: 15, Count: 1, Tokens: 2, Detail: &scheduler.Detail{Running: 3, Waiting: 4, Held: 6}}
	p.Detail.Work = []scheduler.Work{{Prompt: 20, Recomputed: 5}}
	return p
}

func TestReadPass(t *testing.T) {
	if got, want := readPass(fullPass(), 16), (pass{10, 27, 3, 96, 32, 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	p := fullPass()
	p.Detail.Running = 0
	if got := readPass(p, 16).perSeq; got != 96 {
		t.Errorf("%v tokens per request of none, want all 96", got)
	}
}

// TestCoverageOutside checks that time outside the trusted range is counted, and that the worst quantity is named.
func TestCoverageOutside(t *testing.T) {
	wide := timing.Range{Least: 0, Most: 1000}
	c := NewCoverage(timing.Trusted{Tokens: timing.Range{Least: 0, Most: 25}, Requests: wide, Context: wide, PerSeq: wide, Waiting: timing.Range{Least: 0, Most: 4}}, 16)
	if share, name := c.Outside(); share != 0 || name != "" {
		t.Errorf("of nothing: %v, %q", share, name)
	}
	c.Pass(fullPass()) // 27 tokens
	run := fullPass()
	run.Count, run.Tokens = 2, 3 // tokens of each pass
	c.Pass(run)
	late := fullPass()
	late.Detail.Work, late.Detail.Waiting, late.End = nil, 9, 10
	c.Pass(late)
	if share, name := c.Outside(); !near(share, 15.0/25) || name != "tokens per pass" {
		t.Errorf("%v of the time is outside, mostly %s", share, name)
	}
	c.Pass(late)
	c.Pass(late)
	if share, name := c.Outside(); !near(share, 25.0/35) || name != "waiting requests" {
		t.Errorf("%v of the time is outside, mostly %s", share, name)
	}
	if n := testing.AllocsPerRun(100, func() { c.Pass(late) }); n != 0 {
		t.Errorf("%v allocations per pass, want 0", n)
	}
}

func TestWidenStep(t *testing.T) {
	most := timing.Step{Tokens: 1, Requests: 9, Context: 1, Pairs: 9}
	most.Widen(&timing.Step{Tokens: 5, Requests: 5, Context: 5, Pairs: 5})
	if most != (timing.Step{Tokens: 5, Requests: 9, Context: 5, Pairs: 9}) {
		t.Errorf("%+v", most)
	}
}

// TestFrontEnd checks that the front end sends a request to the engine with the least 4·waiting + running. The
// reports come every 100 ms, and requests sent after a report count as waiting.
func TestFrontEnd(t *testing.T) {
	f := frontEnd{at: -refresh}
	for range 3 {
		f.engines = append(f.engines, &engine{})
	}
	for i, l := range []load{{0, 5}, {1, 0}, {0, 7}} {
		f.engines[i].latest = l
	}
	for request, at := range []float64{0, 0, 99, 99.9} {
		f.sendRequest(request, simTime(at))
	}
	f.engines[0].latest = load{3, 0}
	f.sendRequest(4, 100)
	want := [][]int{{1}, {0, 3, 4}, {2}}
	for i, e := range f.engines {
		if !slices.Equal(e.queue, want[i]) {
			t.Errorf("engine %d has %v, want %v", i, e.queue, want[i])
		}
	}
}

// TestWriteText checks that the report has assumptions, unknown settings, and the verdict.
func TestWriteText(t *testing.T) {
	r := &Result{Run: "a run", Notes: []string{"one thing"}, Simulations: 7, Preemptions: 2, Profile: timing.Profile{
		Form: "roofline4-knee2", Parameters: timing.Parameters{Weights: 0.5, Token: 0.25},
		Spreads: []timing.Spread{{Name: "weights_s", Share: 0.1}, {Name: "token_s", Share: 0.11}},
		Trusted: &timing.Trusted{Tokens: timing.Range{Least: 1, Most: 20}},
		Engine:  &timing.Engine{MaxSeqs: 3, MaxBatchedTokens: 4, Version: "0.19"},
	}}
	text := func() string {
		var b strings.Builder
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	got := text()
	for _, want := range []string{
		"Calibrated to a run: roofline4-knee2, 7 simulations\n  assumed: one thing\n  2 preemptions simulated\n",
		"weights_s             0.5           10.0 %\n", "token_s               0.25          11.0 %  not identified: do not transfer\n",
		"tokens per pass                           1 to         20\n", "max_num_seqs 3, max_num_batched_tokens 4, vLLM 0.19 on an unknown GPU",
		"Nothing was held out",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	r.Checks = []Check{{Fitted: "first 2", Judged: "last 1", HeldOut: true, Errors: []Errors{{Metric: "TTFT", Requests: 1, Measured: 0.5, Mean: 0.04}}}}
	if got := text(); !strings.Contains(got, "fitted on first 2, judged on last 1 *\n  TTFT        1     0.5000 s   +4.00") || !strings.Contains(got, "are within 5 %.") {
		t.Errorf("a check that holds:\n%s", got)
	}
	r.Checks[0].Errors[0].Mean = 0.06
	if got := text(); !strings.Contains(got, "are NOT within 5 %") {
		t.Errorf("a check that fails:\n%s", got)
	}
}

func simTime(ms float64) sim.Time { return sim.Time(ms) }
