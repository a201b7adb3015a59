package offline

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/silicon"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// each runs property on random trials until it has accepted n trials. Each trial has a seed.
func each(t *testing.T, n int, property func(t *testing.T, d draw, x *trial, text string) (accepted bool)) {
	n = trials(t, n)
	accepted, ran := 0, 0
	for seed := 0; accepted < n; seed++ {
		if seed > 100*n {
			if ran > 1 {
				t.Errorf("%d of %d trials were of use, want %d", accepted, seed, n)
			}
			return
		}
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			ran++
			d := newDraw(seed)
			x, text := d.trial(t)
			if property(t, d, x, text) {
				accepted++
			}
		})
		if t.Failed() {
			return
		}
	}
}

// aggregate reduces x to one pool, the prefill pool if it has two.
func (x *trial) aggregate() {
	p := *x.cfg.Entry()
	p.Engine.Role = scheduler.Aggregated
	x.cfg.Pools = engines.OnePool(p.Engine, p.Count)
}

// roundRobin reduces x to one pool under round robin.
func (x *trial) roundRobin() {
	x.aggregate()
	x.cfg.Router = policy.RoundRobin
}

// timeless reports whether passes may take no time.
func (x *trial) timeless() bool {
	m, ok := x.model.(coarse)
	return ok && (m.free > 0 || slices.Contains(m.decode, 0)) || x.cfg.Entry().Engine.Speedup > 1e6
}

// TestSingleEqualsCluster checks that the driver of one worker equals a cluster of one worker, with two exceptions.
// In closed loop, the single worker admits sessions only between two passes. If a pass takes no time, the cluster
// starts the next pass before it reads the requests that the end of the pass has released.
func TestSingleEqualsCluster(t *testing.T) {
	each(t, 1000, func(t *testing.T, _ draw, x *trial, text string) bool {
		x.roundRobin()
		x.cfg.Pools[0].Count, x.cfg.Pools[0].Engine.Engine = 1, engineargs.VLLM
		closed, sessions := x.cfg.Admission.Mode == loadgen.Concurrency, x.cfg.Workload.MultiTurn()
		if closed && sessions || (closed || sessions) && x.timeless() {
			return false
		}
		a, b := x.run(bySingle), x.run(byCluster)
		a.calls = nil
		if d := difference(a, b); d != "" {
			t.Fatalf("a single worker and a cluster: %s\n%s", d, x.show(text))
		}
		if d := x.broken(a); d != "" {
			t.Fatalf("%s\n%s", d, x.show(text))
		}
		return a.err == nil
	})
}

// TestAloneEqualsCluster checks that workers replayed one after the other equal a cluster under round robin in open
// loop. If several workers stall, the errors may name different workers.
func TestAloneEqualsCluster(t *testing.T) {
	each(t, 1000, func(t *testing.T, _ draw, x *trial, text string) bool {
		x.roundRobin()
		if x.cfg.Admission.Mode == loadgen.Concurrency || x.cfg.Workload.MultiTurn() {
			return false
		}
		a, b := x.run(byAlone), x.run(byCluster)
		if a.err != nil && b.err != nil {
			return false
		}
		if d := difference(a, b); d != "" {
			t.Fatalf("workers alone and a cluster: %s\n%s", d, x.show(text))
		}
		if d := x.broken(a); d != "" {
			t.Fatalf("%s\n%s", d, x.show(text))
		}
		return true
	})
}

// slower is a timing model multiplied by a power of two.
type slower struct {
	timing.Model
	factor float64
}

func (m slower) Prefill(batch, isl, prefix int) float64 {
	return float64(m.factor * m.Model.Prefill(batch, isl, prefix))
}

func (m slower) Decode(batch, active, context, capacity int) float64 {
	return float64(m.factor * m.Model.Decode(batch, active, context, capacity))
}

// TestTwiceAsSlow doubles all durations of a replay and checks that every instant doubles exactly. Only the rounding
// to nanoseconds has a fixed unit, and all coarse times are whole there. Host memory is left out, because its
// transfers start at whole microseconds. vLLM's own rules are left out, because their naps take 1 ms.
func TestTwiceAsSlow(t *testing.T) {
	each(t, 1000, func(t *testing.T, _ draw, x *trial, text string) bool {
		for i := range x.cfg.Pools {
			x.cfg.Pools[i].Engine.G2.Blocks = 0
			x.cfg.Pools[i].Engine.Rules.EmptyPassMs = 0
		}
		if _, ok := x.model.(coarse); !ok {
			return false
		}
		a := x.run(byCluster)
		y := x.slower(t, text)
		b := y.run(byCluster)
		if a.err != nil || b.err != nil {
			if (a.err == nil) != (b.err == nil) {
				t.Fatalf("errors %v and, twice as slow, %v\n%s", a.err, b.err, x.show(text))
			}
			return false
		}
		for i := range a.records {
			if want := twiceRecord(a.records[i]); b.records[i] != want {
				t.Fatalf("request %d twice as slow:\n  %+v\nwant\n  %+v\n%s", i, b.records[i], want, x.show(text))
			}
		}
		return true
	})
}

// slower returns x with all times doubled.
func (x *trial) slower(t *testing.T, text string) *trial {
	y := &trial{cfg: x.cfg, model: slower{x.model, 2}}
	w := *mooncake(t, text, x.cfg.Workload.TraceBlock)
	for i := range w.Sessions {
		w.Sessions[i].Arrival *= 2
	}
	for i := range w.Turns {
		w.Turns[i].Delay *= 2
	}
	y.cfg.Workload = &w
	if f := x.cfg.FrontEnd; f != nil {
		y.cfg.FrontEnd = &silicon.FrontEnd{Base: 2 * f.Base, Token: 2 * f.Token}
	}
	if x.cfg.Disaggregated() {
		y.cfg.Pools = slices.Clone(x.cfg.Pools)
		y.cfg.Pools[0].Engine.KVBytesPerToken *= 2
	}
	return y
}

func twiceRecord(r collector.Record) collector.Record {
	for _, at := range []*sim.Time{&r.Arrival, &r.First, &r.Second, &r.Last} {
		*at *= 2
	}
	if r.Admitted() {
		r.Admit *= 2
	}
	return r
}

// TestCaptureChangesNothing checks that reports of cache changes by the cores have no effect under round robin,
// because round robin does not read caches.
func TestCaptureChangesNothing(t *testing.T) {
	each(t, 500, func(t *testing.T, d draw, x *trial, text string) bool {
		x.roundRobin()
		capture := pick(d, scheduler.CaptureResidency, scheduler.CaptureEvents)
		if !x.cfg.Pools[0].Engine.PrefixCaching {
			capture = scheduler.CaptureEvents
		}
		a := x.run(byPasses)
		b := x.run(func(r *run, j *journal) (driver, error) {
			r.Stages[0].Capture = capture
			return byPasses(r, j)
		})
		a.calls, b.calls = nil, nil
		if d := difference(a, b); d != "" {
			t.Fatalf("without and with capture: %s\n%s", d, x.show(text))
		}
		return a.err == nil
	})
}

// TestResidencyIsEnough compares a router that receives the prompts cached on a worker with a router that follows
// every announced block. The router with cached prompts and the router with announced blocks place requests alike.
func TestResidencyIsEnough(t *testing.T) {
	each(t, 500, func(t *testing.T, _ draw, x *trial, text string) bool {
		if x.cfg.Choice().Info().Name != policy.KV {
			return false
		}
		residency := false
		a := x.run(byCluster)
		b := x.run(func(r *run, j *journal) (driver, error) {
			if residency = r.Stages[0].Capture == scheduler.CaptureResidency; residency {
				r.Stages[0].Capture = scheduler.CaptureEvents
			}
			return byCluster(r, j)
		})
		told := func(c call) bool { return c.what == "cached" || c.what == "stored" || c.what == "removed" }
		a.calls, b.calls = slices.DeleteFunc(a.calls, told), slices.DeleteFunc(b.calls, told)
		if d := difference(a, b); d != "" {
			t.Fatalf("by residency and by events: %s\n%s", d, x.show(text))
		}
		return residency && a.err == nil
	})
}

// TestSameInputSameBytes checks that the same input gives the same bytes, on one processor and on eight.
func TestSameInputSameBytes(t *testing.T) {
	each(t, 200, func(t *testing.T, _ draw, x *trial, text string) bool {
		var first string
		for _, procs := range []int{1, 8, 8} {
			before := runtime.GOMAXPROCS(procs)
			result, err := Run(context.Background(), x.cfg)
			runtime.GOMAXPROCS(before)
			if err != nil {
				return false
			}
			if got := jsonOf(result.Collector.Report(0)); first == "" {
				first = got
			} else if d := differentLines(first, got); d != "" {
				t.Fatalf("with GOMAXPROCS %d: %s\n%s", procs, d, x.show(text))
			}
		}
		return true
	})
}
