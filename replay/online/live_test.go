package online

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// hang is the timeout of a test for immediate results.
const hang = 30 * time.Second

// within fails the test if do does not return within the timeout.
func within(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(hang):
		t.Fatal("hangs")
	}
}

// endGoroutines fails the test if goroutines that it starts do not end.
func endGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		if !poll.Wait(func() bool { return runtime.NumGoroutine() <= before }) {
			stacks := make([]byte, 1<<16)
			t.Errorf("goroutines are left:\n%s", stacks[:runtime.Stack(stacks, true)])
		}
	})
}

// TestHeldRequestsArrive checks that arrivals are recorded with their times while the router holds all requests
// except the first. The first pass does not end before all requests have arrived.
func TestHeldRequestsArrive(t *testing.T) {
	c := config(t, 1, line(0, 640, 1, ids(0, 10))+line(1, 640, 1, ids(100, 10))+line(2, 640, 1, ids(200, 10)))
	threshold := 0.01
	rc := router.DefaultConfig()
	rc.QueueThreshold = &threshold
	c.Router = policy.KV.Configure(&rc)
	var seen []string
	all := make(chan struct{})
	c.hooks.arrived = func(q *sim.Request, at, really sim.Time) {
		if seen = append(seen, fmt.Sprintf("%d at %v", q.ID, float64(at))); len(seen) == 3 {
			close(all)
		}
	}
	c.hooks.pass = func(sim.WorkerID) {
		select {
		case <-all:
		case <-time.After(hang):
			t.Error("a request does not arrive while another is served")
		}
	}
	r := mustRun(t, c)
	if got := strings.Join(seen, ", "); got != "0 at 0, 1 at 1, 2 at 2" {
		t.Errorf("arrivals are %s", got)
	}
	if r.Report.Completed != 3 || fmt.Sprint(workersOf(r)) != "[0 0 0]" {
		t.Errorf("%d completed, dispatched to %v", r.Report.Completed, workersOf(r))
	}
}

// ids formats n hash ids, starting with first.
func ids(first, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(first + i)
	}
	return strings.Join(all, ",")
}

// TestCompletionBeforeWait checks that a completion between the driver's read of the feed and its wait is not lost.
// No other event would wake the driver.
func TestCompletionBeforeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, 1, line(0, 64, 1, "1")+line(0, 64, 1, "2")+line(0, 64, 1, "3"))
		c.closed(1)
		c.hooks.alarm = newSleeper
		ended := make(chan struct{}, 16)
		c.hooks.pass = func(sim.WorkerID) { ended <- struct{}{} }
		c.hooks.looked = func() {
			select {
			case <-ended:
				synctest.Wait() // the demux has finished
			case <-time.After(200 * time.Millisecond): // woken without an event
			}
		}
		if r := mustRun(t, c); r.Report.Completed != 3 {
			t.Errorf("%d completed, want 3", r.Report.Completed)
		}
	})
}

// TestTaskPanics checks that a task that panics ends its session and no longer counts as in flight.
func TestTaskPanics(t *testing.T) {
	turn := `{"session_id":"%s","timestamp":0,"input_length":64,"output_length":2,"hash_ids":[%d]}` + "\n"
	c := config(t, 1, fmt.Sprintf(turn+turn+turn+turn, "a", 1, "a", 2, "b", 3, "b", 4))
	c.closed(1)
	c.hooks.task = func(q *sim.Request) {
		if q.Session == 0 && q.Turn == 0 {
			panic("on purpose")
		}
	}
	within(t, func() {
		r, err := Run(context.Background(), c)
		if err == nil || !strings.Contains(err.Error(), "trace.jsonl:1") || !strings.Contains(err.Error(), "on purpose") {
			t.Errorf("error %v, want the panic and its place", err)
		}
		if r == nil || r.Report.Completed != 2 || len(r.Failed) != 1 {
			t.Errorf("result %+v, want the other session's two requests", r)
		}
	})
}

// TestWorkerPanics checks that a worker that panics ends the run with an error.
func TestWorkerPanics(t *testing.T) {
	endGoroutines(t)
	c := config(t, 2, line(0, 64, 50, "1")+line(0, 64, 50, "2")+line(100000, 64, 1, "3"))
	passes := 0
	c.hooks.pass = func(w sim.WorkerID) {
		if w == 1 {
			if passes++; passes == 2 {
				panic("on purpose")
			}
		}
	}
	within(t, func() {
		_, err := Run(context.Background(), c)
		var p *PanicError
		if !errors.As(err, &p) || p.Worker != 1 {
			t.Errorf("error %v, want the panic of worker 1", err)
		}
	})
}

// TestInterrupt checks that an interrupted run ends at once with a partial report.
func TestInterrupt(t *testing.T) {
	endGoroutines(t)
	var trace string
	for i := range 40 {
		trace += line(i/20*3_600_000, 64, 2+10_000*(i/10%2), fmt.Sprint(i))
	}
	for name, change := range map[string]func(*Config){
		"round robin": func(*Config) {},
		"kv":          func(c *Config) { c.kv() },
		"closed loop": func(c *Config) { c.closed(15) },
		"sglang":      func(c *Config) { c.Pools[0].Engine.Engine = engineargs.SGLang },
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t, 2, trace)
			change(&c)
			why := errors.New("enough")
			ctx, cancel := context.WithCancelCause(context.Background())
			var once sync.Once
			finished := 0
			c.Progress = func(n int) {
				if finished = n; n == 10 {
					once.Do(func() { cancel(why) })
				}
			}
			within(t, func() {
				r, err := Run(ctx, c)
				if err != nil {
					t.Error(err)
					return
				}
				done := 0
				for _, q := range r.Collector.Requests() {
					if q.Tokens > q.OutputTokens || q.Counted() && q.TTFT() < 0 {
						t.Errorf("record %+v", *q)
					}
					if q.Tokens == q.OutputTokens {
						done++
					}
				}
				if r.Report.Completed != done || r.Report.Completed+r.Cancelled > r.Report.Requests {
					t.Errorf("%d completed, %d with all their tokens, %d cancelled of %d", r.Report.Completed, done, r.Cancelled, r.Report.Requests)
				}
				if r.Cause != why || done < 10 || r.Cancelled == 0 || done+r.Cancelled > r.Report.Requests || finished > done {
					t.Errorf("cause %v, %d done and %d cancelled of %d", r.Cause, done, r.Cancelled, r.Report.Requests)
				}
				partial(t, r.Report)
			})
		})
	}
}

// partial checks the entry "online" of a report.
func partial(t *testing.T, r *collector.Report) {
	t.Helper()
	if online, _ := r.Get("online").Value().([]collector.Field); len(online) == 0 || online[0] != collector.Of("partial", true) {
		t.Errorf("entries are %v, want online with partial", r.Fields())
	}
	var b strings.Builder
	if err := r.WriteJSON(&b); err != nil {
		t.Error(err)
		return
	}
	if _, err := collector.ReadJSON(strings.NewReader(b.String())); err != nil {
		t.Errorf("%v in\n%s", err, &b)
	}
}

// TestDeadline checks that a deadline ends a run like an interruption.
func TestDeadline(t *testing.T) {
	c := config(t, 1, line(0, 64, 1, "1")+line(3_600_000, 64, 1, "2"))
	c.Deadline = 50 * time.Millisecond
	within(t, func() {
		r, err := Run(context.Background(), c)
		if err != nil || !errors.Is(r.Cause, ErrDeadline) || r.Report.Requests != 1 {
			t.Errorf("result %+v, error %v", r, err)
		}
	})
}

// TestTwoPools checks that requests move from prefill workers to decode workers. Only tokens of decode workers count,
// and all of these tokens follow the transfer.
func TestTwoPools(t *testing.T) {
	for _, mode := range []policy.Name{policy.RoundRobin, policy.KV} {
		c := config(t, 1, line(0, 640, 3, ids(0, 10))+line(1, 640, 1, ids(20, 10))+line(2, 640, 2, ids(0, 10)))
		c.Router = mode
		p, d := c.Pools[0], c.Pools[0]
		p.Engine.Role, d.Engine.Role = scheduler.Prefill, scheduler.Decode
		p.Engine.TransferGBPerSecond, p.Engine.KVBytesPerToken = 1, 50_000 // 32 ms each
		c.Pools = engines.TwoPools(p, d)
		watch := &watcher{}
		c.Observer = watch
		r := mustRun(t, c)
		if r.Report.Completed != 3 || r.Report.OutputTokens != 6 {
			t.Errorf("%v: %d completed with %d tokens", mode, r.Report.Completed, r.Report.OutputTokens)
		}
		for id, q := range r.Collector.Requests() {
			if q.Tokens != q.OutputTokens || q.First < q.Arrival+32 || q.PrefillWorker != 0 || q.Worker != 0 {
				t.Errorf("%v: request %d: %+v", mode, id, *q)
			}
		}
		if watch.handoffs != 3 || watch.routed != 6 || watch.arrived != 3 || watch.passes < 4 {
			t.Errorf("%v: the observer saw %+v", mode, *watch)
		}
	}
}

// watcher counts the events that it receives.
type watcher struct {
	harness.NoObserver
	arrived, routed, handoffs, passes int
}

func (w *watcher) Arrived(*sim.Request, sim.Time)                           { w.arrived++ }
func (w *watcher) Routed(scheduler.Role, sim.Time, *router.Placement)       { w.routed++ }
func (w *watcher) Handoff(sim.RequestID, sim.Time, sim.Time)                { w.handoffs++ }
func (w *watcher) Pass(_ scheduler.Role, _ sim.WorkerID, p *scheduler.Pass) { w.passes++ }

// TestRawSink checks that the raw sink receives every block that the router's index follows.
func TestRawSink(t *testing.T) {
	c := config(t, 1, line(0, 640, 2, ids(0, 10))+line(0, 640, 2, ids(5, 10)))
	stored := map[uint64]bool{}
	c.Raw = func(_ scheduler.Role, _ sim.WorkerID, p *scheduler.Pass) {
		for _, e := range p.Events {
			for _, b := range e.Stored {
				stored[b.Seq] = true
			}
		}
	}
	if mustRun(t, c); len(stored) != 20 {
		t.Errorf("%d blocks stored, want 20", len(stored))
	}
}

var runs = flag.Int("runs", 200, "how many short runs TestManyRuns makes")

// TestManyRuns runs many short replays. TestManyRuns checks that no token precedes its arrival, that all tokens are
// gained, and that no goroutine is left.
func TestManyRuns(t *testing.T) {
	endGoroutines(t)
	for i := range *runs {
		var trace string
		for r := range 5 {
			trace += line(r, 65+r, 1+r%3, fmt.Sprintf("1,%d", r))
		}
		c := config(t, 1+i%2, trace)
		c.Pools[0].Engine.Speedup = 50
		if i%4 >= 2 {
			c.kv()
		}
		if i%3 == 0 {
			c.closed(1 + i%2)
		}
		r := mustRun(t, c)
		for id, q := range r.Collector.Requests() {
			if q.Tokens != q.OutputTokens || q.First < q.Arrival || q.Last < q.First {
				t.Errorf("run %d: request %d: %+v", i, id, *q)
			}
		}
	}
}
