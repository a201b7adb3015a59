package online

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// config returns the configuration of a run of a trace on vLLM engines with blocks of 64 tokens.
func config(t testing.TB, workers int, trace string) Config {
	t.Helper()
	a := engineargs.Default()
	a.BlockTokens = 64
	w, err := registry.Read(strings.NewReader(trace), "trace.jsonl", formats.Options{Format: formats.Mooncake, TraceBlock: 64})
	if err != nil {
		t.Fatal(err)
	}
	return Config{Config: harness.Config{
		Workload: w, Admission: loadgen.Admission{Mode: loadgen.Trace, Speedup: 1},
		Topology: engines.Topology{Pools: engines.OnePool(a, workers)},
	}}
}

// closed sets the closed loop with the given number of requests in flight.
func (c *Config) closed(inFlight int) {
	c.Admission = loadgen.Admission{Mode: loadgen.Concurrency, MaxInFlight: inFlight}
}

// kv sets the KV router.
func (c *Config) kv() { c.Router = policy.KV }

// line returns a line of a trace.
func line(at, input, output int, ids string) string {
	return fmt.Sprintf(`{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":[%s]}`+"\n", at, input, output, ids)
}

func mustRun(t testing.TB, c Config) *harness.Result {
	t.Helper()
	c.Warn = func(text string) { t.Logf("warning: %s", text) }
	r, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Partial || r.Cancelled > 0 {
		t.Fatalf("the run ended early: %v, %d cancelled", r.Cause, r.Cancelled)
	}
	return r
}

// TestTwoRequests checks that two requests on one worker get all their tokens.
func TestTwoRequests(t *testing.T) {
	r := mustRun(t, config(t, 1, line(0, 64, 3, "1")+line(1, 64, 2, "2")))
	if r.Report.Completed != 2 || r.Report.OutputTokens != 5 || r.Report.WallMS <= 0 {
		t.Errorf("%d completed, %d tokens, %v ms of real time", r.Report.Completed, r.Report.OutputTokens, r.Report.WallMS)
	}
	for id, q := range r.Collector.Requests() {
		if q.Tokens != q.OutputTokens {
			t.Errorf("request %d: %d tokens, want %d", id, q.Tokens, q.OutputTokens)
		}
	}
}

// TestRejected checks that a prompt that is too long is rejected and that a closed loop continues. An answer ends at
// the maximum sequence length.
func TestRejected(t *testing.T) {
	for _, inFlight := range []int{0, 1} {
		c := config(t, 1, line(0, 64, 3, "1")+line(0, 128, 3, "2,3")+line(0, 126, 9, "4,5"))
		if c.Pools[0].Engine.MaxLength = 128; inFlight > 0 {
			c.closed(inFlight)
		}
		r := mustRun(t, c)
		if r.CountRejected() != 1 || r.Rejected[0].Request != 1 || r.Report.Completed != 2 || r.Report.OutputTokens != 5 {
			t.Errorf("%d in flight: %+v, %d completed, %d tokens, want the second rejected and 3 and 2 tokens", inFlight, r.Rejected, r.Report.Completed, r.Report.OutputTokens)
		}
	}
}

// TestAborted checks that a request that outgrows SGLang's pool of layers with a window is aborted and counted. The
// aborted request no longer counts in a closed loop and in the router's load, and later requests get all their
// tokens.
func TestAborted(t *testing.T) {
	for _, inFlight := range []int{0, 1, 2} {
		c := config(t, 1, line(0, 64, 3, "1")+line(0, 64, 300, "2")+line(0, 64, 5, "3")+line(0, 64, 5, "4"))
		a := &c.Pools[0].Engine
		a.Engine, a.BlockTokens, a.Blocks, a.Speedup = engineargs.SGLang, 1, 1000, 50
		if a.SGLang.Window, a.SGLang.WindowShare = 16, 0.1; inFlight > 0 {
			c.closed(inFlight)
		}
		r := mustRun(t, c)
		if r.CountRejected() != 1 || r.Rejected[0].Request != 1 || r.Rejected[0].Reason != "out_of_memory" {
			t.Fatalf("%d in flight: rejected %+v, want request 1 for out_of_memory", inFlight, r.Rejected)
		}
		if gained := r.Rejected[0].Gained; gained < 1 || gained >= 300 {
			t.Errorf("%d in flight: aborted after %d tokens, want some of 300", inFlight, gained)
		}
		if r.Report.Completed != 3 || r.Report.OutputTokens != 13 {
			t.Errorf("%d in flight: %d completed, %d tokens, want 3 and 13", inFlight, r.Report.Completed, r.Report.OutputTokens)
		}
	}
}

// TestRoundRobin checks that round robin uses the workers in turn.
func TestRoundRobin(t *testing.T) {
	var trace string
	for i := range 5 {
		trace += line(10*i, 64, 1, fmt.Sprint(i))
	}
	r := mustRun(t, config(t, 3, trace))
	if got := fmt.Sprint(workersOf(r)); got != "[0 1 2 0 1]" {
		t.Errorf("dispatched to %v", got)
	}
}

// TestSamePromptSameWorker checks that a prompt goes to the worker that has it cached. Under the reference's rules,
// SGLang has no overlap, and the tie goes to the lowest id.
func TestSamePromptSameWorker(t *testing.T) {
	for _, engine := range []engineargs.Engine{engineargs.VLLM, engineargs.SGLang} {
		turn := `{"session_id":"a","timestamp":%d,"input_length":512,"output_length":2,"hash_ids":[1,2,3,4,5,6,7,8]}` + "\n"
		c := config(t, 2, fmt.Sprintf(turn+turn, 0, 20)) // the second turn arrives 20 ms after the end of the first
		c.kv()
		c.Pools[0].Engine.Engine = engine
		c.Compat = engine == engineargs.SGLang
		r := mustRun(t, c)
		if d := workersOf(r); len(d) != 2 || d[0] != d[1] || r.Report.PrefixCacheReusedRatio <= 0 {
			t.Errorf("engine %v: dispatched to %v, reuse %v", engine, d, r.Report.PrefixCacheReusedRatio)
		}
	}
}

// TestInFlight checks the limit of requests in flight in closed loop.
func TestInFlight(t *testing.T) {
	c := config(t, 2, line(0, 64, 2, "1")+line(0, 64, 3, "2")+line(0, 64, 2, "3")+line(0, 64, 1, "4"))
	c.closed(2)
	if r := mustRun(t, c); mostInFlight(r) > 2 || r.Report.Completed != 4 {
		t.Errorf("%d in flight at once, %d completed", mostInFlight(r), r.Report.Completed)
	}
	turn := `{"session_id":"a","timestamp":%d,"input_length":64,"output_length":2,"hash_ids":[%d]}` + "\n"
	c = config(t, 2, fmt.Sprintf(turn+turn+turn, 0, 1, 5, 2, 9, 3))
	c.closed(1)
	if r := mustRun(t, c); mostInFlight(r) != 1 || r.Report.Completed != 3 {
		t.Errorf("%d in flight at once, %d completed", mostInFlight(r), r.Report.Completed)
	}
}

// TestSessions checks that turns arrive in order, each after the planned end of the previous turn, on the real clock.
func TestSessions(t *testing.T) {
	var trace string
	for s := range 3 {
		for turn := range 3 {
			trace += fmt.Sprintf(`{"session_id":"%d","timestamp":%d,"input_length":%d,"output_length":2,"hash_ids":[%s]}`+"\n",
				s, 3*s+20*turn, 64*(turn+1), ids(10*s, turn+1))
		}
	}
	r := mustRun(t, config(t, 2, trace))
	last := map[int32]float64{}
	var turns []int32
	for _, q := range r.Collector.Requests() {
		if q.Turn > 0 && float64(q.Arrival) < last[q.Session]+20-float64(chainable) {
			t.Errorf("turn %d of session %d arrives at %v ms, %v ms after the one before ended", q.Turn, q.Session, q.Arrival, float64(q.Arrival)-last[q.Session])
		}
		last[q.Session] = float64(q.Last)
		turns = append(turns, q.Turn)
	}
	slices.Sort(turns)
	if fmt.Sprint(turns) != "[0 0 0 1 1 1 2 2 2]" || r.Report.Completed != 9 {
		t.Errorf("turns %v, %d completed", turns, r.Report.Completed)
	}
}

// workersOf returns the workers of requests, by request.
func workersOf(r *harness.Result) (all []sim.WorkerID) {
	for _, q := range r.Collector.Requests() {
		all = append(all, q.Worker)
	}
	return all
}

// mostInFlight returns the maximum number of requests between arrival and last token.
func mostInFlight(r *harness.Result) int {
	most := 0
	for _, q := range r.Collector.Requests() {
		n := 0
		for _, other := range r.Collector.Requests() {
			if other.Arrival <= q.Arrival && q.Arrival < other.Last {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
