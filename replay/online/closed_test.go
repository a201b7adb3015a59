package online

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/sim"
)

// runFaked runs c with a clock that advances only while every goroutine waits. Passes end at the planned instants,
// and waits for other goroutines time out at once. Results depend only on the order of events, or on the order of
// goroutines if no event decides.
func runFaked(t *testing.T, c Config) (r *harness.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c.hooks.alarm = newSleeper
		r = mustRun(t, c)
	})
	if n := onlineField(r.Report, "barrier_timeouts"); n != 0 {
		t.Errorf("%v waits for others took too long", n)
	}
	return r
}

// fakedRuns is the number of runs of each case. The order of goroutines differs between runs.
const fakedRuns = 5

// TestClosedLoops compares closed loops in real time with the logical clock, also if passes of several workers end
// together. TestClosedLoops uses sixteen requests in flight and sessions of three turns, on two workers and on two
// pools of two. tools/onlineaccuracy measures the error of a run on the real clock.
func TestClosedLoops(t *testing.T) {
	for _, pd := range []bool{false, true} {
		t.Run(fmt.Sprintf("disaggregated=%v", pd), func(t *testing.T) {
			twin, err := offline.Run(context.Background(), offline.Config{Config: sixteenInFlight(t, pd).Config})
			if err != nil {
				t.Fatal(err)
			}
			want := twin.Report
			for range fakedRuns {
				r := runFaked(t, sixteenInFlight(t, pd)).Report
				for _, value := range []struct {
					name      string
					got, want float64
				}{
					{"duration", r.DurationMS, want.DurationMS},
					{"mean TTFT", r.TTFT.Mean, want.TTFT.Mean},
					{"mean ITL", r.ITL.Mean, want.ITL.Mean},
					{"mean latency", r.E2E.Mean, want.E2E.Mean},
				} {
					if math.Abs(value.got-value.want) > 1e-4 { // the clock has a resolution of 1 ns
						t.Errorf("%s is %v ms, want %v", value.name, value.got, value.want)
					}
				}
			}
		})
	}
}

// TestSameDecisions checks that decisions in real time are identical to those on the logical clock: the arrival of
// each request, and its worker.
func TestSameDecisions(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"round robin": func(*Config) {},
		"kv":          func(c *Config) { c.kv() },
		"open loop":   func(c *Config) { c.Admission = loadgen.Admission{Mode: loadgen.Trace, Speedup: 1} },
		"one turn each, and no worker has as many as another": func(c *Config) {
			c.Pools[0].Count = 5
			c.Workload = mustMake(t, loadgen.Synthetic{Requests: 100, Input: 512, Output: 16, Turns: 1, Block: 64})
		},
		"SGLang, passes that end just before an arrival": func(c *Config) {
			c.Pools[0].Engine.Engine, c.Pools[0].Count = engineargs.SGLang, 4
			c.Admission = loadgen.Admission{Mode: loadgen.Trace, Speedup: 1}
			c.Workload = mustMake(t, loadgen.Synthetic{Requests: 400, Input: 1024, Output: 64, Interval: 8, SharedRatio: 0.5, Groups: 8, Turns: 1, Block: 64})
		},
	} {
		t.Run(name, func(t *testing.T) {
			twin := sixteenInFlight(t, false)
			change(&twin)
			logical, err := offline.Run(context.Background(), offline.Config{Config: twin.Config})
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, q := range logical.Collector.Requests() {
				want = append(want, fmt.Sprint(float64(q.Arrival), q.Worker))
			}
			for range fakedRuns {
				c := sixteenInFlight(t, false)
				change(&c)
				var got []string
				c.hooks.came = func(q *sim.Request, at sim.Time) { got = append(got, fmt.Sprint(float64(at))) }
				for id, q := range runFaked(t, c).Collector.Requests() {
					got[id] += fmt.Sprint(" ", q.Worker)
				}
				for i := range want {
					if got[i] != want[i] {
						t.Fatalf("request %d comes to %s, want %s", i, got[i], want[i])
					}
				}
			}
		})
	}
}

// mustMake generates a workload.
func mustMake(t *testing.T, r loadgen.Synthetic) *loadgen.Workload {
	t.Helper()
	w, err := loadgen.NewSynthetic(r)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// sixteenInFlight returns a closed loop of sessions of three turns. Sessions of a group share the first half of their
// prompts, and there are four groups.
func sixteenInFlight(t *testing.T, disaggregated bool) Config {
	c := config(t, 2, line(0, 64, 1, "1"))
	c.Workload = mustMake(t, loadgen.Synthetic{Requests: 48, Input: 512, Output: 16, Turns: 3, SharedRatio: 0.5, Groups: 4, Block: 64})
	if disaggregated {
		one := c.Pools[0]
		c.Topology = engines.Topology{Pools: engines.TwoPools(one, one)}
	}
	c.closed(16)
	return c
}

// onlineField returns a value of the entry "online" of a report.
func onlineField(r *collector.Report, key string) any {
	for _, f := range r.Fields() {
		if fields, ok := f.Value().([]collector.Field); ok && f.Key == "online" {
			for _, f := range fields {
				if f.Key == key {
					return f.Value()
				}
			}
		}
	}
	return nil
}

// TestTimekeeping checks that a run reports passes that end late, fall behind or time out in a wait.
func TestTimekeeping(t *testing.T) {
	good := timekeeping{passes: 1000, length: 6000, overshoot: 100, slipped: 30, duration: 6000}
	if reason := good.findFault(); reason != "" {
		t.Errorf("a good run is not trusted: %s", reason)
	}
	for _, c := range []struct {
		spoil func(*timekeeping)
		want  string
	}{
		{func(t *timekeeping) { t.overshoot = 200 }, "passes of 6.00 ms ended 0.20 ms late on average, must be at most 3 % of that"},
		{func(t *timekeeping) { t.slipped = 70 }, "a worker fell behind by 70 ms in 6000 ms, must be at most 1 %"},
		{func(t *timekeeping) { t.timeouts = 11 }, "11 waits for other events of the same instant took more than 20ms, must be none"},
	} {
		bad := good
		c.spoil(&bad)
		if got := bad.findFault(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if reason := (&timekeeping{}).findFault(); reason != "" {
		t.Errorf("a run without passes is not trusted: %s", reason)
	}
}
