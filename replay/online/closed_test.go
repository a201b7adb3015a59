package online

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/sim"
)

// Closed loops in real time are within 3 % of their twins on the logical clock, also
// where passes of several workers end together: sixteen requests in flight,
// sessions of three turns, on two workers and on two pools of two. A run that is
// farther off says that its timings cannot be trusted.
func TestClosedLoops(t *testing.T) {
	for _, pd := range []bool{false, true} {
		t.Run(fmt.Sprintf("disaggregated=%v", pd), func(t *testing.T) {
			want, err := offline.Run(context.Background(), offline.Config{Config: sixteenInFlight(t, pd).Config})
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				r := mustRun(t, sixteenInFlight(t, pd)).Report
				off := ""
				for _, value := range []struct {
					name      string
					got, want float64
				}{
					{"duration", r.DurationMS, want.Report.DurationMS},
					{"mean TTFT", r.TTFT.Mean, want.Report.TTFT.Mean},
					{"mean ITL", r.ITL.Mean, want.Report.ITL.Mean},
					{"mean latency", r.E2E.Mean, want.Report.E2E.Mean},
				} {
					if share := value.got/value.want - 1; math.Abs(share) > 0.03 {
						off += fmt.Sprintf("%s is %.2f ms, want %.2f within 3 %%; ", value.name, value.got, value.want)
					}
				}
				switch {
				case onlineField(r, "trusted") == true && off != "":
					t.Fatal(off)
				case off == "":
					return
				}
				t.Log("not to be trusted: ", off)
			}
			t.Skip("skipped: five runs on this machine said of themselves that their timings cannot be trusted")
		})
	}
}

// What is decided in real time is what is decided on the logical clock, to the last bit: when each
// request comes, and where it goes.
func TestSameDecisions(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"round robin": func(*Config) {},
		"kv":          func(c *Config) { c.kv() },
		"open loop":   func(c *Config) { c.Admission = loadgen.Admission{Mode: loadgen.Trace, Speedup: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 5 {
				twin, c := sixteenInFlight(t, false), sixteenInFlight(t, false)
				change(&twin)
				change(&c)
				var got, want []string
				c.hooks.came = func(q *sim.Request, at sim.Time) { got = append(got, fmt.Sprint(float64(at))) }
				r := mustRun(t, c)
				logical, err := offline.Run(context.Background(), offline.Config{Config: twin.Config})
				if err != nil {
					t.Fatal(err)
				}
				for _, q := range logical.Collector.Requests() {
					want = append(want, fmt.Sprint(float64(q.Arrival), q.Worker))
				}
				for id, q := range r.Collector.Requests() {
					got[id] += fmt.Sprint(" ", q.Worker)
				}
				i := 0
				for i < len(want) && got[i] == want[i] {
					i++
				}
				switch kept := onlineField(r.Report, "slipped_ms") == 0.0 && onlineField(r.Report, "barrier_timeouts") == 0; {
				case i == len(want):
					return
				case kept:
					t.Fatalf("request %d comes to %s, want %s", i, got[i], want[i])
				}
			}
			t.Skip("skipped: this machine was too late, by 20 ms and more, in five runs")
		})
	}
}

// sixteenInFlight is a closed loop of sessions of three turns that share the first half of
// their prompts with others of four groups.
func sixteenInFlight(t *testing.T, disaggregated bool) Config {
	c := config(t, 2, line(0, 64, 1, "1"))
	synthetic := loadgen.Synthetic{Requests: 48, Input: 512, Output: 16, Turns: 3, SharedRatio: 0.5, Groups: 4, Block: 64}
	var err error
	if c.Workload, err = loadgen.NewSynthetic(synthetic); err != nil {
		t.Fatal(err)
	}
	if disaggregated {
		one := c.Pools[0]
		c.Topology = engines.Topology{Pools: engines.TwoPools(one, one)}
	}
	c.closed(16)
	return c
}

// onlineField returns a value of the report's key online.
func onlineField(r *collector.Report, key string) any {
	for _, f := range r.Extra {
		if fields, ok := f.Value.([]collector.Field); ok && f.Key == "online" {
			for _, f := range fields {
				if f.Key == key {
					return f.Value
				}
			}
		}
	}
	return nil
}

// A run whose passes end late, fall behind or wait in vain says so.
func TestTimekeeping(t *testing.T) {
	good := timekeeping{passes: 1000, length: 6000, overshoot: 100, slipped: 30, duration: 6000}
	if reason := good.findFault(); reason != "" {
		t.Errorf("a good run is not trusted: %s", reason)
	}
	for _, c := range []struct {
		spoil func(*timekeeping)
		want  string
	}{
		{func(t *timekeeping) { t.overshoot = 200 }, "passes of 6.00 ms ended 0.20 ms late on average, want at most 3 % of that"},
		{func(t *timekeeping) { t.slipped = 70 }, "a worker fell behind by 70 ms in 6000 ms, want at most 1 %"},
		{func(t *timekeeping) { t.timeouts = 11 }, "11 waits for others at the same instant took more than 20ms, want none"},
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
