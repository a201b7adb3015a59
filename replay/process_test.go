package replay_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// always returns a program that sends all requests to one worker, and records its start in a file.
func always(worker, note string) *policy.Process {
	return &policy.Process{Command: `echo started >> '` + note + `'; read hello; echo '{"version":1,"facts":["requests"]}'; while read line; do echo ` + worker + `; done`}
}

// TestProcessOfEachPool checks that each pool has a separate program and that a restarted router gets a new program.
// All programs end with the run.
func TestProcessOfEachPool(t *testing.T) {
	prefill, decode := engineargs.Default(), engineargs.Default()
	prefill.Role, decode.Role = scheduler.Prefill, scheduler.Decode
	for name, tc := range map[string]struct {
		change func(*replay.Spec)
		want   int
	}{
		"one pool": {func(*replay.Spec) {}, 1},
		"two pools": {func(s *replay.Spec) {
			s.Pools = replay.TwoPools(replay.Pool{Engine: prefill, Count: 3}, replay.Pool{Engine: decode, Count: 2})
		}, 2},
		"a restart": {func(s *replay.Spec) {
			s.Faults = &replay.Faults{Events: []engines.Fault{{Kind: engines.Router, At: 500, Pool: engines.Anywhere, Zone: engines.Anywhere}}, OnLoss: engines.RetryThem, Limit: 3}
		}, 2},
	} {
		note := filepath.Join(t.TempDir(), "started")
		spec := givenSpec()
		spec.Router = always("1", note)
		tc.change(&spec)
		workers, _ := runGiven(t, spec, nil)
		for id, w := range workers {
			if w != 1 {
				t.Fatalf("%s: request %d is on worker %d, want 1", name, id, w)
			}
		}
		text, err := os.ReadFile(note)
		if got := strings.Count(string(text), "started"); err != nil || got != tc.want {
			t.Errorf("%s: %d programs were started, %v, want %d", name, got, err, tc.want)
		}
	}
}

// TestProcessErrors checks that an error of a program ends the run, and that the end of the context ends it within a
// second.
func TestProcessErrors(t *testing.T) {
	for _, tc := range []struct{ script, want string }{
		{`exit 2`, "exit status 2, must be an answer to line 1"},
		{`read x; echo '{"version":1}'; for i in 1 2 3; do read x; echo 0; done; exit 1`, "exit status 1, must be an answer to line 5"},
		{`read x; echo '{"version":1}'; read x; echo 9`, `the answer to line 2 is "9", must be the id of a worker: 0, 1, 2, 3`},
		{`read x; echo '{"version":1}'; sleep 60`, "no answer to line 2 within 300ms"},
		{`read x; echo '{"version":1}'; while read x; do echo 0; done; exit 7`, "exit status 7 after its last answer, must end with its input"},
		{`read x; echo '{"version":1,"facts":["cost"]}'`, "must be workers with the price of a GPU"},
	} {
		spec := givenSpec()
		timeout := time.Minute
		if strings.Contains(tc.script, "sleep") {
			timeout = 300 * time.Millisecond
		}
		spec.Router = &policy.Process{Command: tc.script, Timeout: timeout}
		result, err := spec.Run(context.Background(), replay.Streams{})
		if err == nil || result != nil || !strings.Contains(err.Error(), "policy process "+tc.script) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %s", tc.script, err, tc.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	spec := givenSpec()
	spec.Router = &policy.Process{Command: `read x; echo '{"version":1}'; sleep 60`, Timeout: time.Minute}
	started := time.Now()
	if _, err := spec.Run(ctx, replay.Streams{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if took := time.Since(started); took > 20*time.Second {
		t.Errorf("the end took %v", took)
	}
}

// TestProcessRefusals checks that settings that are not supported with a program are rejected.
func TestProcessRefusals(t *testing.T) {
	for want, run := range map[string]func(*replay.Spec) error{
		"requires a command": func(s *replay.Spec) error {
			s.Router = &policy.Process{}
			_, err := s.Run(context.Background(), replay.Streams{})
			return err
		},
		"in steps": func(s *replay.Spec) error {
			_, err := s.Steps(context.Background(), replay.Streams{})
			return err
		},
		"in real time": func(s *replay.Spec) error {
			_, err := s.RunLive(context.Background(), replay.Streams{}, replay.Live{})
			return err
		},
		"and an admission are mutually exclusive": func(s *replay.Spec) error {
			s.Router = &policy.Process{Command: `read x; echo '{"version":1,"hold":true}'; read x`, Timeout: time.Minute}
			s.Admission = &policy.Admission{Rules: []policy.AdmissionRule{{Decision: router.Shed, When: "queued > 5"}}}
			_, err := s.Run(context.Background(), replay.Streams{})
			return err
		},
	} {
		spec := givenSpec()
		spec.Router = always("0", filepath.Join(t.TempDir(), "started"))
		if err := run(&spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// together is a policy that batches: it assigns the requests of an instant to workers in turn.
type together struct {
	given
	batches []int // number of requests of each batch
	next    sim.WorkerID
	seen    []int32 // requests on worker 0, as seen for each request
}

func (p *together) Add(_ *sim.Request, c *router.Candidates) {
	p.batches[len(p.batches)-1]++
	p.seen = append(p.seen, c.Running[0])
}

func (p *together) Decide() {}

func (p *together) Clear() { p.batches = append(p.batches, 0) }

// TestBatches checks that a policy that batches gets exactly the requests of an instant, before any of them is
// placed.
func TestBatches(t *testing.T) {
	spec := givenSpec()
	spec.Trace = &replay.Trace{Path: "../testdata/traces/burst.jsonl", Detect: true}
	p := &together{given: given{needs: router.Needs{Running: true}}}
	p.choose = func(*sim.Request, *router.Candidates) sim.WorkerID { p.next++; return (p.next - 1) % 4 }
	workers, _ := runGiven(t, spec, func(policy.Options) (router.Policy, error) { return p, nil })
	all := 0
	for _, n := range p.batches {
		if n == 1 {
			t.Error("a batch of one request")
		}
		all += n
	}
	if all < 4 || all > len(workers) {
		t.Errorf("%d requests in batches, want some of %d", all, len(workers))
	}
	at := 0
	for _, n := range p.batches {
		for i := 1; i < n; i++ {
			if p.seen[at+i] != p.seen[at] {
				t.Fatalf("in a batch worker 0 has %d requests at first and %d later", p.seen[at], p.seen[at+i])
			}
		}
		at += n
	}
}

// TestProcessHoldsAndSheds checks a program that holds and sheds requests: each request ends once.
func TestProcessHoldsAndSheds(t *testing.T) {
	spec := givenSpec()
	spec.Synthetic.Turns, spec.Synthetic.Delay, spec.Synthetic.Interval = 1, 0, 1
	spec.Router = &policy.Process{Command: `read x; echo '{"version":1,"facts":["may_hold"],"hold":true}'
		n=0; while read x; do n=$((n+1)); case $x in *0]) echo 2;; *) case $((n%3)) in 0) echo '"hold"';; 1) echo '"shed"';; 2) echo 3;; esac;; esac; done`}
	result, err := spec.Run(context.Background(), replay.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	by, _ := result.Collector.Outcomes()
	sum := 0
	for _, n := range by {
		sum += n
	}
	if r := result.Report; sum != 300 || r.Completed == 0 || r.Completed == 300 {
		t.Errorf("outcomes are %v, of which %d completed, want 300 in all", by, r.Completed)
	}
}
