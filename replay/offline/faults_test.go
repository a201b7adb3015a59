package offline

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
)

// faults draws the faults of a replay, also at instants with many events.
func (d draw) faults(t *engines.Topology) *engines.Faults {
	f := &engines.Faults{
		OnLoss: pick(d, engines.LoseThem, engines.RetryThem, engines.MigrateThem), Limit: pick(d, 0, 1, 3, 10),
		After: pick(d, sim.Time(0), 0, 5, 0.75), Detect: pick(d, sim.Time(0), 0, 0, 2, 7.5), Zones: pick(d, 0, 1, 2, 3),
	}
	for i := range t.Pools {
		if t.Compat && t.Pools[i].Engine.Engine == engineargs.SGLang && f.OnLoss == engines.MigrateThem {
			f.OnLoss = engines.RetryThem
		}
	}
	kinds := slices.DeleteFunc(engines.FaultKinds(), func(k engines.FaultKind) bool {
		return (k == engines.Link || k == engines.Role) && !t.Disaggregated() || k == engines.Role && t.Autoscales()
	})
	for range 1 + d.IntN(6) {
		x := engines.Fault{
			Kind: pick(d, pick(d, kinds...), engines.Dies), Pool: engines.Anywhere, Zone: engines.Anywhere, N: 1 + d.IntN(2),
			For: sim.Time(d.IntN(30)), Back: pick(d, engines.Forever, 0, 1, 2.5, 40), Factor: pick(d, 0.5, 1, 0.25),
		}
		if x.At = sim.Time(d.IntN(80)); d.oneIn(3) {
			x.At += sim.Time(d.Float64())
		}
		if x.Kind == engines.Slows {
			x.Factor = pick(d, 2, 1.5, 0.5)
		}
		if t.Disaggregated() && d.oneIn(2) {
			x.Pool = d.IntN(2)
		} else if x.Kind == engines.Role {
			x.Pool = 1
		}
		if f.Zones > 0 && d.oneIn(3) {
			x.Zone = d.IntN(f.Zones)
		} else if !d.oneIn(4) {
			x.Workers = []sim.WorkerID{sim.WorkerID(d.IntN(4))}
		}
		f.Events = append(f.Events, x)
	}
	if d.oneIn(4) {
		f.Laws = []engines.FaultLaw{{Pool: engines.Anywhere, Between: sim.Time(20 + d.IntN(200)), Repair: sim.Time(d.IntN(20))}}
	}
	return f
}

// TestFaultScripts checks replays with random faults. Every request ends in exactly one outcome, no router or worker
// holds a request at the end, and tokens add up. Runs of passes equal single passes.
func TestFaultScripts(t *testing.T) {
	each(t, 2000, func(t *testing.T, d draw, x *trial, text string) bool {
		x.cfg.Faults, x.cfg.Signals = d.faults(&x.cfg.Topology), d.signals(&x.cfg.Topology)
		var left witness
		a, b := x.run(left.drive(false)), x.run(left.drive(true))
		if isStuck(a.err) {
			return false
		}
		if a.err != nil {
			t.Fatalf("%v\n%+v\n%s", a.err, x.cfg.Faults, x.show(text))
		}
		if text := left[0].unbalanced(); text != "" {
			t.Fatalf("%s\n%+v\n%s", text, x.cfg.Faults, x.show(text))
		}
		if diff := difference(a, b); diff != "" {
			t.Fatalf("runs and single passes: %s\n%+v\n%s", diff, x.cfg.Faults, x.show(text))
		}
		return true
	})
}

// unbalanced returns the first inconsistency of a cluster after its end, "" if it has none.
func (c *cluster) unbalanced() string {
	if c.inFlight != 0 || c.transit != 0 || c.countInFlight() != 0 {
		return fmt.Sprintf("%d requests in flight, %d on their way, %d held", c.inFlight, c.transit, c.countInFlight())
	}
	for _, p := range c.pools {
		for _, w := range p.workers {
			if w.core != nil && w.core.Load() != 0 || len(w.has) > 0 {
				return fmt.Sprintf("worker %d has %v", w.id, w.has)
			}
		}
	}
	if want := len(c.Workload.Turns); c.Collector.Len() != want {
		return fmt.Sprintf("%d of %d requests have arrived", c.Collector.Len(), want)
	}
	by, sum := c.Collector.Outcomes()
	if n := by[collector.Unfinished]; n > 0 {
		return fmt.Sprintf("%d requests have not ended", n)
	}
	costs := collector.EventCost{}
	for _, x := range c.Collector.EventCosts() {
		costs.Lost += x.Lost
		costs.Retried += x.Retried
		costs.Migrated += x.Migrated
		costs.LostTokens += x.LostTokens
		costs.Recomputed += x.Recomputed
	}
	if c.Client != nil { // requests that clients give up have no event
		costs.LostTokens, costs.Recomputed = sum.LostTokens, sum.Recomputed
	}
	if costs.Retried != sum.Retries || costs.Migrated != sum.Migrations || costs.LostTokens != sum.LostTokens || costs.Recomputed != sum.Recomputed || costs.Lost > by[collector.Lost] {
		return fmt.Sprintf("events cost %+v, requests %+v and %v", costs, sum, by)
	}
	for id, r := range c.Collector.Requests() {
		if text := c.brokenFate(id, r); text != "" {
			return fmt.Sprintf("request %d: %s: %+v %+v", id, text, *r, c.Collector.Fate(id))
		}
	}
	return ""
}

// brokenFate returns the first error in the record of a request that has ended.
func (c *cluster) brokenFate(id sim.RequestID, r *collector.Record) string {
	times := []sim.Time{r.Arrival, r.Admit, r.First}
	if r.Tokens >= 2 {
		times = append(times, r.Second)
	}
	f := c.Collector.Fate(id)
	switch how := c.Collector.OutcomeOf(id); {
	case how == collector.Lost && r.Tokens != 0:
		return "lost, and has tokens"
	case how == collector.Completed && r.Tokens != r.OutputTokens:
		return "completed, and has not all tokens"
	case how == collector.Completed && !slices.IsSorted(append(times, r.Last)):
		return fmt.Sprintf("times %v", times)
	case f.Retries+f.Migrations > c.lives.rules.Limit+f.Resent:
		return "came back too often"
	case f.LostTokens > (f.Retries+f.Resent+1)*int(r.OutputTokens):
		return "lost more tokens than it could have"
	case r.Reused > r.InputTokens && f.Retries+f.Migrations > 0:
		return "reused more than its prompt"
	}
	return ""
}

// giveUp cancels the requests on workers with an id divisible by every.
type giveUp struct{ every sim.RequestID }

func (x giveUp) happen(c *cluster) error {
	event := c.faults.noteIncident("some are called off", nil)
	for id := range sim.RequestID(c.Collector.Len()) {
		if id%x.every != 0 || c.lives.workerOf(id) == nil {
			continue
		}
		if err := c.lives.callOff(id, givenUp(event)); err != nil {
			return err
		}
	}
	return nil
}

// givenUp ends a request that giveUp has cancelled. The value of a givenUp is the number of the incident.
type givenUp int

func (event givenUp) takeLeaver(c *cluster, l leaver) error {
	c.Collector.GiveUp(l.id, collector.Lost, l.gained, int(event))
	return c.finishRequest(l.id, c.now)
}

// TestCalledOff checks that requests can be cancelled on their workers at any instant, also with faults.
func TestCalledOff(t *testing.T) {
	each(t, 1000, func(t *testing.T, d draw, x *trial, text string) bool {
		x.cfg.Faults = &engines.Faults{}
		if d.oneIn(2) {
			x.cfg.Faults = d.faults(&x.cfg.Topology)
		}
		when := []sim.Time{sim.Time(d.IntN(40)), sim.Time(d.IntN(80)) + 0.5}
		var c *cluster
		out := x.run(func(r *run, _ *journal) (_ driver, err error) {
			c, err = newCluster(r)
			for i, at := range when {
				c.agenda.schedule(at, giveUp{every: sim.RequestID(i + 1)})
			}
			return c.runEvents, err
		})
		if isStuck(out.err) {
			return false
		}
		if out.err != nil {
			t.Fatalf("%v\n%s", out.err, x.show(text))
		}
		if diff := c.unbalanced(); diff != "" {
			t.Fatalf("called off at %v: %s\n%+v\n%s", when, diff, x.cfg.Faults, x.show(text))
		}
		return true
	})
}

// TestHangWithTwoInFlight checks a hang while two passes are in flight, with runs of passes and with single passes.
// The GPU computes the second pass while the worker hangs. The engine follows vLLM's own rules with host memory, and
// time passes while it plans passes.
func TestHangWithTwoInFlight(t *testing.T) {
	hung := 0
	each(t, 300, func(t *testing.T, d draw, x *trial, text string) bool {
		x.aggregate()
		e := &x.cfg.Entry().Engine
		if e.Engine != engineargs.VLLM {
			return false
		}
		x.cfg.Compat = false
		e.Rules, e.Blocks = releases.Rules033(), e.Blocks+1 // vLLM reserves one block
		e.G2 = engineargs.G2{Blocks: 20, BatchBlocks: 1, ToHostGBPerSec: 14, ToGPUGBPerSec: 14}
		e.KVBytesPerToken, e.QueuePolicy = 1000, ""
		x.model = coarse{prefill: []float64{1, 2}, decode: []float64{1, 2}}
		x.cfg.Faults = &engines.Faults{OnLoss: engines.LoseThem, Events: []engines.Fault{{
			Kind: engines.Hangs, Pool: engines.Anywhere, Zone: engines.Anywhere, At: sim.Time(d.IntN(60)), For: sim.Time(1 + d.IntN(20)),
		}}}
		var left witness
		a, b := x.run(left.drive(false)), x.run(left.drive(true))
		if isStuck(a.err) {
			return false
		}
		if a.err != nil {
			t.Fatalf("%v\n%s", a.err, x.show(text))
		}
		if diff := difference(a, b); diff != "" {
			t.Fatalf("runs and single passes: %s\n%+v\n%s", diff, x.cfg.Faults, x.show(text))
		}
		hung++
		return true
	})
	t.Logf("%d clusters hung", hung)
}

// TestLeastPass checks a core with a clock behind the clock of the cluster. A pass of this core may be shorter than
// the smallest step of the cluster's clock. The pass then takes that step, so that time advances.
func TestLeastPass(t *testing.T) {
	begins := sim.Time(10363.122988000003)
	w := &worker{life: life{lag: 20000}, pass: scheduler.Pass{Start: begins, End: sim.Time(math.Nextafter(float64(begins), math.Inf(1))), Count: 1}}
	now := begins + w.lag
	w.warpPass(now)
	if w.pass.Start != now || w.pass.End <= now || w.pass.End > now+1e-9 {
		t.Errorf("a pass from %v to %v, want it to begin at %v and end right after", w.pass.Start, w.pass.End, now)
	}
	if w.pass.End-w.lag <= begins {
		t.Errorf("the core's clock stays at %v", w.pass.End-w.lag)
	}
}
