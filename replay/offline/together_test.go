package offline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// everything draws effects of all kinds that are not passes, for one replay.
func (d draw) everything(x *trial) {
	switch d.IntN(3) {
	case 0:
		x.cfg.Router = pick(d, policy.All()...).Name
	case 1:
		if d.oneIn(2) {
			x.cfg.Router = d.text()
		}
	}
	if d.oneIn(3) {
		x.cfg.Topology.Admission = d.admissionRules()
	}
	if d.oneIn(2) {
		d.priorities(x.cfg.Workload)
	}
	if !d.oneIn(8) {
		d.autoscalers(x)
	}
	if d.oneIn(4) {
		d.sizes(x)
	}
	if d.oneIn(3) && len(x.cfg.Scale) == 0 {
		for _, p := range x.cfg.Pools {
			speeds := make([]float64, p.Count)
			for i := range speeds {
				speeds[i] = pick(d, 1, 0.5, 2)
			}
			x.cfg.WorkerSpeeds = append(x.cfg.WorkerSpeeds, speeds)
		}
	}
	x.cfg.Reject = d.oneIn(3)
	if x.cfg.Reject && d.oneIn(2) {
		for i := range x.cfg.Pools {
			e := &x.cfg.Pools[i].Engine
			e.Blocks = max(e.Blocks/2, 2)
		}
	}
	x.cfg.Seed = uint64(d.IntN(5))
	if !d.oneIn(8) {
		x.cfg.Faults = d.faults(&x.cfg.Topology)
		d.coincide(x)
	}
}

// priorities draws priorities of requests.
func (d draw) priorities(w *loadgen.Workload) {
	w.Priorities = make([]int32, len(w.Turns))
	for i := range w.Priorities {
		w.Priorities[i] = int32(d.IntN(3))
	}
}

// sizes draws planned pool sizes.
func (d draw) sizes(x *trial) {
	at := sim.Time(0)
	for range 1 + d.IntN(3) {
		at += sim.Time(d.IntN(30))
		e := engines.ScaleEvent{At: at, Workers: 1 + d.IntN(4), Decode: engines.KeepSize}
		if x.cfg.Disaggregated() && d.oneIn(2) {
			e.Decode = 1 + d.IntN(4)
		}
		x.cfg.Scale = append(x.cfg.Scale, e)
	}
}

// moments records the instants of arrivals, handoffs and passes, so that faults can coincide with them.
type moments struct {
	harness.NoObserver
	at []sim.Time
}

func (m *moments) Arrived(_ *sim.Request, at sim.Time)        { m.at = append(m.at, at) }
func (m *moments) Handoff(_ sim.RequestID, from, to sim.Time) { m.at = append(m.at, from, to) }
func (m *moments) Pass(_ scheduler.Role, _ sim.WorkerID, p *scheduler.Pass) {
	m.at = append(m.at, p.Start, p.End)
}

// coincide moves some faults to instants of other effects.
func (d draw) coincide(x *trial) {
	if d.oneIn(3) {
		return
	}
	m := &moments{}
	calm := *x
	calm.cfg.Faults, calm.cfg.Observer = nil, m
	calm.run(func(r *run, _ *journal) (driver, error) {
		c, err := newCluster(r)
		if err != nil {
			return nil, err
		}
		return c.runEvents, nil
	})
	for i := range x.cfg.Faults.Events {
		if len(m.at) > 0 && d.oneIn(2) {
			x.cfg.Faults.Events[i].At = pick(d, m.at...)
		}
	}
}

// TestTogether checks replays with faults, autoscalers, planned sizes, admission and priorities together. The replays
// run on any engine, in one pool or two, in open and closed loop, under any router. Every request ends in exactly one
// outcome, tokens and workers add up, and runs of passes equal single passes.
func TestTogether(t *testing.T) {
	met := map[string]int{}
	each(t, 2000, func(t *testing.T, d draw, x *trial, text string) bool {
		d.everything(x)
		var left witness
		a := x.run(left.drive(false))
		if isStuck(a.err) || isBarren(a.err) {
			return false
		}
		if a.err != nil {
			t.Fatalf("%v\n%s", a.err, x.show(text))
		}
		if text := left[0].disagrees(); text != "" {
			t.Fatalf("%s\n%s", text, x.show(text))
		}
		if diff := difference(a, x.run(left.drive(true))); diff != "" {
			t.Fatalf("runs and single passes: %s\n%s", diff, x.show(text))
		}
		left[0].meet(met)
		return true
	})
	t.Log(met)
	least := trials(t, 2000) / 50
	for _, what := range []string{"completed", "lost", "shed", "rejected", "replaced", "faults and an autoscaler", "all gone", "two pools", "sessions"} {
		if met[what] < least {
			t.Errorf("%s: met %d times, want at least %d: %v", what, met[what], least, met)
		}
	}
}

// disagrees returns the first inconsistency of a cluster after its end, "" if it has none.
func (c *cluster) disagrees() string {
	if text := c.unbalanced(); text != "" {
		return text
	}
	by, _ := c.Collector.Outcomes()
	sum := 0
	for _, n := range by {
		sum += n
	}
	var told harness.Result
	c.AddRejected(&told, false)
	if sum != len(c.Workload.Turns) || c.done != sum || by[collector.Rejected] != len(told.Rejected) {
		return fmt.Sprintf("%d requests ended, %d of them %v, %d rejected", c.done, len(c.Workload.Turns), by, len(told.Rejected))
	}
	for i, p := range c.pools {
		wanted, serving := 0, 0
		for _, w := range p.workers {
			if w.isWanted() {
				wanted++
			}
			if w.state == active {
				serving++
			}
		}
		if serving != p.serving {
			return fmt.Sprintf("pool %d: %d workers serve, and %d are counted", i, serving, p.serving)
		}
		if p.auto == nil {
			continue
		}
		last := p.auto.done.Sizes[len(p.auto.done.Sizes)-1]
		if wanted != p.auto.wanted || last.Ready != serving {
			return fmt.Sprintf("pool %d: there are %d workers, %d serve, want %d: %+v", i, wanted, serving, p.auto.wanted, last)
		}
	}
	return ""
}

// meet counts the features that a cluster has used.
func (c *cluster) meet(met map[string]int) {
	by, _ := c.Collector.Outcomes()
	for _, how := range []collector.Outcome{collector.Completed, collector.Lost, collector.Shed, collector.Rejected} {
		if by[how] > 0 {
			met[how.String()]++
		}
	}
	count := func(what string, is bool) {
		if is {
			met[what]++
		}
	}
	count("faults and an autoscaler", c.Faults != nil && c.Autoscales())
	count("two pools", len(c.pools) > 1)
	count("sessions", c.Workload.MultiTurn())
	for _, p := range c.pools {
		if p.auto == nil {
			continue
		}
		added := 0
		for _, act := range p.auto.done.Acts {
			added += max(act.To-act.From, 0)
		}
		count("replaced", len(p.workers) > p.Count+added)
		for _, size := range p.auto.done.Sizes {
			if size.Ready == 0 {
				met["all gone"]++
				break
			}
		}
	}
}

// isBarren reports whether err is the error of incidents without progress of requests. Engines with requests that
// keep preempting each other may return this error later.
func isBarren(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "stalled at ") && strings.Contains(err.Error(), "incidents in a row")
}
