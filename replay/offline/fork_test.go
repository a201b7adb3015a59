package offline

import (
	"context"
	"testing"

	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// mixed draws further state that a fork must copy: state of one kind, or of several kinds at once.
func (d draw) mixed(x *trial) {
	if d.oneIn(2) {
		d.live(x)
	} else {
		d.everything(x)
		x.cfg.Signals = d.signals(&x.cfg.Topology)
	}
	if d.oneIn(3) {
		x.cfg.Client = d.client()
	}
	if x.cfg.Disaggregated() && d.oneIn(2) {
		d.pd(&x.cfg.Topology)
	}
}

// live draws effects of one kind other than passes, for example faults or an autoscaler.
func (d draw) live(x *trial) {
	switch d.IntN(5) {
	case 0:
		x.cfg.Faults = d.faults(&x.cfg.Topology)
	case 1:
		x.aggregate()
		x.cfg.Autoscale, x.cfg.Scale, x.cfg.WorkerSpeeds = d.autoscale(), nil, nil
		x.cfg.Pools[0].Count = x.cfg.Autoscale.Min
	case 2:
		x.cfg.Router = d.text()
	case 3:
		x.cfg.Router = pick(d, policy.All()...).Name
	}
	if d.oneIn(4) {
		x.cfg.Topology.Admission = d.admissionRules()
	}
	x.cfg.Signals = d.signals(&x.cfg.Topology)
}

// end runs a fork to its end and returns its outcome.
func (f *Fork) end() outcome {
	out := outcome{err: f.cluster.finish(context.Background())}
	for _, q := range f.cluster.Collector.Requests() {
		out.records = append(out.records, *q)
	}
	out.report = f.cluster.Collector.Report(0)
	return out
}

// TestCopiesGoOnAlike copies a random replay at random instants. The original, its copies and copies of copies end as
// the whole run does, in any order of execution. A copy loses no state and shares no mutable state with another copy.
func TestCopiesGoOnAlike(t *testing.T) {
	each(t, 2000, func(t *testing.T, d draw, x *trial, text string) bool {
		d.mixed(x)
		want := x.run(func(r *run, _ *journal) (driver, error) {
			c, err := newCluster(r)
			if err != nil {
				return nil, err
			}
			return c.runEvents, nil
		})
		if isStuck(want.err) {
			return false
		}
		var f *Fork
		if _, _, err := x.prepare(func(r *run, _ *journal) (driver, error) {
			c, err := newCluster(r)
			f = &Fork{cluster: c, copier: newCopier()}
			return nil, err
		}, &journal{}); err != nil {
			t.Fatal(err)
		}
		all, at := []*Fork{f}, sim.Time(0)
		for range 3 {
			at += sim.Time(d.IntN(40)) + pick(d, 0, 0.25, sim.Time(d.Float64()))
			from := pick(d, all...)
			if err := from.AdvanceTo(context.Background(), at); err != nil {
				t.Fatal(err)
			}
			c, err := from.Copy()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		d.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		for i, f := range all {
			if diff := difference(want, f.end()); diff != "" {
				t.Fatalf("the whole run and copy %d: %s\n%s", i, diff, x.show(text))
			}
		}
		return true
	})
}

// change draws a change that may be made to a cluster at an instant.
func (d draw) change(x *trial, at sim.Time) engines.Change {
	c := engines.Change{At: at}
	for c.At == at && c.Workers+c.Decode == 0 && !c.Reroutes() && c.Faults == nil && c.Speedup == 0 && c.WorkerSpeeds == nil {
		if d.oneIn(3) && len(x.cfg.WorkerSpeeds) == 0 && !x.cfg.Autoscales() {
			c.Workers = 1 + d.IntN(5)
			if x.cfg.Disaggregated() {
				c.Decode = d.IntN(4)
			}
		}
		switch d.IntN(7) {
		case 0:
			c.Routing = pick(d, policy.All()...).Name
		case 1:
			c.Routing = d.text()
		case 2:
			c.Admission = d.admissionRules()
		case 3:
			if x.cfg.Faults == nil && !x.cfg.Autoscales() {
				c.Faults = d.faults(&x.cfg.Topology)
				for i := range c.Faults.Events {
					c.Faults.Events[i].At += at
				}
			}
		case 4:
			c.Speedup = pick(d, 0.5, 1, 2, 10)
		case 5:
			if c.Workers+c.Decode == 0 && !x.cfg.Autoscales() && len(x.cfg.Scale) == 0 {
				c.WorkerSpeeds = d.speeds(&x.cfg.Topology)
			}
		}
	}
	return c
}

// speeds draws the speeds of workers.
func (d draw) speeds(t *engines.Topology) [][]float64 {
	var all [][]float64
	for i := range t.Pools {
		speeds := make([]float64, t.Pools[i].Count)
		for k := range speeds {
			speeds[k] = pick(d, 1, 0.5, 2, 0.3)
		}
		all = append(all, speeds)
	}
	return all
}

// TestForksEqualWholeRuns forks random replays into several futures. Each future equals a whole run with the same
// change at that instant. The future without a change equals the unchanged run.
func TestForksEqualWholeRuns(t *testing.T) {
	changed, same := 0, 0
	each(t, 2000, func(t *testing.T, d draw, x *trial, text string) bool {
		d.mixed(x)
		at := sim.Time(d.IntN(60)) + pick(d, 0, 0.25, sim.Time(d.Float64()))
		var futures []engines.Change
		for range 1 + d.IntN(3) {
			if c := d.change(x, at); x.allows(c) {
				futures = append(futures, c)
			}
		}
		x.cfg.Possible = futures
		if x.cfg.Validate() != nil {
			return false
		}
		x.cfg.Possible = nil
		whole := func(r *run, _ *journal) (driver, error) {
			c, err := newCluster(r)
			return c.runEvents, err
		}
		plain := x.run(whole)
		if isStuck(plain.err) {
			return false
		}
		y := *x
		y.cfg.Possible = futures
		var f *Fork
		if _, _, err := y.prepare(func(r *run, _ *journal) (driver, error) {
			c, err := newCluster(r)
			f = &Fork{cluster: c, copier: newCopier()}
			return nil, err
		}, &journal{}); err != nil {
			return false // this change is not supported
		}
		if err := f.AdvanceTo(context.Background(), at); err != nil {
			t.Fatal(err)
		}
		for _, c := range futures {
			own, err := f.Copy()
			if err != nil {
				t.Fatal(err)
			}
			if err := own.Change(c); err != nil {
				t.Fatal(err)
			}
			x.cfg.Changes = []engines.Change{c}
			want := x.run(whole)
			if diff := difference(want, own.end()); diff != "" {
				t.Fatalf("the whole run and the future with %+v: %s\n%s", c, diff, x.show(text))
			}
			if difference(plain, want) == "" {
				same++
			}
			changed++
		}
		if diff := difference(plain, f.end()); diff != "" {
			t.Fatalf("the run without a change and the fork: %s\n%s", diff, x.show(text))
		}
		return true
	})
	if 4*same > 3*changed {
		t.Errorf("%d of %d changes changed nothing, want fewer", same, changed)
	}
}

// allows reports whether a change is supported.
func (x *trial) allows(c engines.Change) bool {
	t := x.cfg.Topology
	t.Changes = []engines.Change{c}
	return t.CheckChanges() == nil
}
