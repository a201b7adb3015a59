package offline

import (
	"context"
	"errors"
	"testing"

	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// live draws what may go on in a cluster besides work.
func (d draw) live(x *trial) {
	switch d.IntN(5) {
	case 0:
		x.cfg.Faults = d.faults(&x.cfg.Topology)
	case 1:
		x.aggregate()
		x.cfg.Autoscale, x.cfg.Scale, x.cfg.WorkerSpeeds = d.autoscale(), nil, nil
		x.cfg.Pools[0].Count = x.cfg.Autoscale.Min
	case 2:
		x.cfg.Text, x.cfg.Router, x.cfg.RouterConfig = d.text(), policy.TextName, nil
	case 3:
		x.cfg.Router, x.cfg.RouterConfig = pick(d, policy.All()...).Name, nil
	}
	if d.oneIn(4) {
		x.cfg.Topology.Admission = d.admissionRules()
	}
	x.cfg.Signals = d.signals(&x.cfg.Topology)
}

// end is what a fork leaves when it goes on to its end.
func (f *Fork) end() outcome {
	out := outcome{err: f.cluster.runEvents(context.Background())}
	for _, q := range f.cluster.Collector.Requests() {
		out.records = append(out.records, *q)
	}
	out.report = f.cluster.Collector.Report(0)
	return out
}

// TestCopiesGoOnAlike copies a random replay at random instants. The original, its copies and
// copies of these come to the end of the whole run, whichever goes first: no copy forgets
// anything, and none has anything in common with another.
func TestCopiesGoOnAlike(t *testing.T) {
	each(t, 2000, func(t *testing.T, d draw, x *trial, text string) bool {
		d.live(x)
		want := x.run(func(r *run, _ *journal) (driver, error) {
			c, err := newCluster(r)
			if err != nil {
				return nil, err
			}
			return c.runEvents, nil
		})
		stall, oversize := new(harness.StalledError), new(engines.OversizeError)
		if errors.As(want.err, &stall) || errors.As(want.err, &oversize) {
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
