package calibrate

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/calibrate/measured/measuredtest"
	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler/timing"
)

// apart and lockstep return the settings of servers with two engines.
func apart() string {
	return measuredtest.Meta(`"data_parallel_size":1`, `"data_parallel_size":2`, `"num_gpu_blocks":400`, `"num_gpu_blocks":800`)
}

func lockstep() string {
	return strings.Replace(apart(), `"data_parallel_size":2`, `"data_parallel_size":2,"enable_expert_parallel":true`, 1)
}

// dense returns count requests at a higher rate than one engine of the test server can process.
func dense(count int) []measured.Request {
	var all []measured.Request
	for i := range count {
		all = append(all, measured.Request{
			Input: 50 + i*37%400, Output: 20 + i*53%90, Place: i,
			Arrival: float64(i)*0.04 + 0.02*math.Sin(float64(i)),
		})
	}
	return all
}

// serve simulates the server with these settings for the requests.
func serve(t *testing.T, settings string, requests []measured.Request) (*Simulation, Outcome) {
	t.Helper()
	return serveIn(t, settings, requests, truth())
}

// serveIn does the same as serve, with passes by the parameters p.
func serveIn(t *testing.T, settings string, requests []measured.Request, p timing.Parameters) (*Simulation, Outcome) {
	t.Helper()
	dir := t.TempDir()
	measuredtest.Write(t, filepath.Join(dir, "meta.json"), settings)
	m := &Measured{Run: measured.Run{Requests: requests}}
	var err error
	if m.Settings, err = measured.ReadServer(dir); err != nil {
		t.Fatal(err)
	}
	s, err := newSimulation(m, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	p.Graphs = m.Settings.Graphs
	var out Outcome
	if err := s.Run(&p, &out, nil); err != nil {
		t.Fatal(err)
	}
	return s, out
}

// written returns a run with the measurements in out.
func written(t *testing.T, settings string, requests []measured.Request, out *Outcome) *Measured {
	t.Helper()
	dir := t.TempDir()
	measuredtest.Write(t, filepath.Join(dir, "meta.json"), settings)
	var lines bytes.Buffer
	for i, r := range requests {
		fmt.Fprintf(&lines, `{"request_id":"r%d","input_toks":%d,"output_toks":%d,"arrival_time":%v,"queued_ts":%v,"scheduled_ts":%v,"first_token_ts":%v,"last_token_ts":%v}`+"\n",
			i, r.Input, r.Output, 1.7e9+r.Arrival, 100+r.Arrival, 100+out.Scheduled[i], 100+out.First[i], 100+out.Last[i])
	}
	measuredtest.Write(t, filepath.Join(dir, "requests.jsonl"), lines.String())
	m, err := Read(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestOneEngineInParallel checks that one engine has the same result in every mode of running engines.
func TestOneEngineInParallel(t *testing.T) {
	s, want := serve(t, measuredtest.Meta(), dense(80))
	p := truth()
	p.Graphs = s.settings.Graphs
	for name, drive := range map[string]func(*server) error{"lockstep": (*server).runLockstep, "apart": (*server).runApart} {
		var out Outcome
		out.reset(len(s.requests))
		r, err := s.newServer(&p, &out, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := drive(r); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(out.First, want.First) || !slices.Equal(out.Last, want.Last) || out.Passes != want.Passes {
			t.Errorf("%s: another run than that of one engine", name)
		}
	}
}

// TestLockstep checks that passes in lockstep end together, so an engine waits for the slower one. Engines at their
// own pace do not wait.
func TestLockstep(t *testing.T) {
	requests := dense(80)
	_, alone := serve(t, apart(), requests)
	_, together := serve(t, lockstep(), requests)
	_, one := serve(t, measuredtest.Meta(), requests)
	last := func(o Outcome) float64 { return slices.Max(o.Last) }
	if !(last(alone) < last(together) && last(together) < last(one)) {
		t.Errorf("ends after %v s at their own pace, %v s in lockstep, %v s on one engine; want them in this order", last(alone), last(together), last(one))
	}
	ends := map[float64]bool{}
	for i := range requests {
		ends[together.First[i]], ends[together.Last[i]] = true, true
	}
	if len(ends) > together.Passes {
		t.Errorf("%d different instants in %d passes", len(ends), together.Passes)
	}
}

// TestPreemptions checks that a server with too few blocks preempts requests and reports how often.
func TestPreemptions(t *testing.T) {
	settings := measuredtest.Meta(`"num_gpu_blocks":400`, `"num_gpu_blocks":60`, `"policy"`, `"scheduler_reserve_full_isl":false,"policy"`)
	if _, out := serve(t, settings, dense(80)); out.Preemptions < 1 || out.Passes < 80 {
		t.Errorf("%d preemptions in %d passes, want some", out.Preemptions, out.Passes)
	}
}

// TestFindsEngines checks that the parameters of a server with two engines are found again. The engines run in
// lockstep, or requests went to them in turn, which no file records.
func TestFindsEngines(t *testing.T) {
	long.Only(t)
	t.Parallel()
	requests := dense(200)
	inTurn := Outcome{First: make([]float64, len(requests)), Last: make([]float64, len(requests)), Scheduled: make([]float64, len(requests))}
	for k := range 2 {
		var half []measured.Request
		for i := k; i < len(requests); i += 2 {
			half = append(half, requests[i])
		}
		_, out := serve(t, measuredtest.Meta(), half)
		for j := range half {
			i := 2*j + k
			inTurn.First[i], inTurn.Last[i], inTurn.Scheduled[i] = out.First[j], out.Last[j], out.Scheduled[j]
		}
	}
	_, together := serve(t, lockstep(), requests)
	for _, c := range []struct {
		name, settings string
		out            Outcome
		bound          float64
	}{{"lockstep", lockstep(), together, 0.03}, {"in turn", apart(), inTurn, 0.05}} {
		r, err := Run(t.Context(), written(t, c.settings, requests, &c.out), Options{Holdout: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		for _, check := range r.Checks {
			for _, e := range check.Errors {
				if (check.HeldOut || check.Judged == "all") && math.Abs(e.Mean) > c.bound {
					t.Errorf("%s, fitted to %s, judged on %s: %+v, want a mean within %v", c.name, check.Fitted, check.Judged, e, c.bound)
				}
			}
		}
		if testing.Verbose() {
			var b bytes.Buffer
			_ = r.WriteText(&b)
			t.Logf("%s\n%s", c.name, &b)
		}
	}
}
