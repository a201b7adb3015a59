package offline

import (
	"math"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler/silicon"
	"github.com/replay-llm/replay/sim"
)

// enters records the instants at which requests enter the router.
type enters struct {
	harness.NoObserver
	sent, entered []sim.Time
}

func (e *enters) Arrived(q *sim.Request, at sim.Time) {
	e.sent, e.entered = append(e.sent, at), append(e.entered, q.Arrived)
}

// runFrontEnd replays a trace behind a front end.
func runFrontEnd(t *testing.T, e *example, f *silicon.FrontEnd) ([]collector.Record, *enters) {
	t.Helper()
	c := e.config(t)
	seen := &enters{}
	c.FrontEnd, c.Observer = f, seen
	result, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return result.Collector.Records(), seen
}

// TestFrontEnd checks that a request with a long prompt is overtaken in the front end. Records have the order of
// sending.
func TestFrontEnd(t *testing.T) {
	e := &example{trace: `{"timestamp": 0, "input_length": 200, "output_length": 2, "hash_ids": [1, 2, 3, 4]}
{"timestamp": 1, "input_length": 10, "output_length": 2, "hash_ids": [5]}
`}
	for workers := range 3 {
		e.workers = workers
		records, seen := runFrontEnd(t, e, &silicon.FrontEnd{Base: 2, Token: 0.5})
		for i, want := range []struct{ sent, entered sim.Time }{{0, 102}, {1, 8}} {
			if seen.sent[i] != want.sent || seen.entered[i] != want.entered || records[i].Arrival != want.sent {
				t.Errorf("%d workers: request %d is sent at %v and enters at %v, want %+v", workers, i, seen.sent[i], seen.entered[i], want)
			}
			if records[i].Admit < want.entered || records[i].Admit > want.entered+20 || records[i].Tokens != 2 {
				t.Errorf("%d workers: request %d is admitted at %v, want soon after %v", workers, i, records[i].Admit, want.entered)
			}
		}
	}
}

// TestFrontEndInClosedLoop checks that a request in the front end is in flight in closed loop.
func TestFrontEndInClosedLoop(t *testing.T) {
	e := &example{synthetic: &loadgen.Synthetic{Requests: 4, Input: 64, Output: 4, Turns: 1}, concurrency: 1, workers: 1}
	plain, _ := runFrontEnd(t, e, nil)
	for _, e.workers = range []int{1, 2} {
		behind, _ := runFrontEnd(t, e, &silicon.FrontEnd{Base: 8})
		for i := range behind {
			if d := float64(behind[i].TTFT()-plain[i].TTFT()) - 8; math.Abs(d) > 1e-9 {
				t.Errorf("%d workers: TTFT of request %d is %v, want 8 ms more than %v", e.workers, i, behind[i].TTFT(), plain[i].TTFT())
			}
			if i > 0 && behind[i].Arrival != behind[i-1].Last {
				t.Errorf("%d workers: request %d is sent at %v, want at the end of the one before, %v", e.workers, i, behind[i].Arrival, behind[i-1].Last)
			}
		}
	}
}

// TestConstantFrontEndDelays checks that a constant front end only delays everything, in open loop.
func TestConstantFrontEndDelays(t *testing.T) {
	const delay = 64
	each(t, 300, func(t *testing.T, _ draw, x *trial, text string) bool {
		if x.cfg.Admission.Mode != loadgen.Trace || x.cfg.Admission.Speedup == 3 || x.cfg.Workload.MultiTurn() {
			return false
		}
		x.cfg.FrontEnd = nil
		plain := x.run(byCluster)
		x.cfg.FrontEnd = &silicon.FrontEnd{Base: delay}
		behind := x.run(byCluster)
		if plain.err != nil || behind.err != nil {
			return false
		}
		for i := range plain.records {
			a, b := &plain.records[i], &behind.records[i]
			if a.Arrival != b.Arrival || a.Tokens > 0 && math.Abs(float64(b.First-a.First)-delay)+math.Abs(float64(b.Last-a.Last)-delay) > 1e-6 {
				t.Fatalf("request %d has tokens from %v to %v, and behind a front end of %v ms from %v to %v\n%s", i, a.First, a.Last, delay, b.First, b.Last, x.show(text))
			}
		}
		return true
	})
}
