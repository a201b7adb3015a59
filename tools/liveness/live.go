package main

import (
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/tools/draw"
)

// drawLife draws events in the cluster, such as scaling and faults.
func (x *trial) drawLife(d *draw.Drawer) {
	if d.Chance(3) {
		x.drawScalers(d)
	}
	if d.Chance(3) {
		x.drawFaults(d)
	}
	if d.Chance(6) {
		d.Tags.Add("admission")
		x.spec.Topology.Admission = &policy.Admission{Name: "drawn", Rules: []policy.AdmissionRule{{
			Decision: draw.Pick(d.Rand, router.Wait, router.Shed),
			When:     draw.Pick(d.Rand, "min(requests) >= 1", "sum(requests) > 3", "queued > 2", "request.waited > 5", "true"),
		}}}
	}
}

// drawScalers draws an autoscaler for one pool or for both, with extreme settings.
func (x *trial) drawScalers(d *draw.Drawer) {
	d.Tags.Add("autoscale")
	for i := range x.spec.Pools {
		if i+1 < len(x.spec.Pools) && d.Chance(2) {
			continue
		}
		a := autoscale.Default(draw.Pick(d.Rand, autoscale.HPA, autoscale.KEDA))
		a.Sync, a.Interval, a.Delay = draw.Pick(d.Rand, sim.Time(100), 250), 100, draw.Pick(d.Rand, sim.Time(0), 150)
		a.Min, a.Max = 1, draw.Pick(d.Rand, 1, 2, 6)
		a.Targets = []autoscale.Target{{Metric: draw.Pick(d.Rand, autoscale.Metrics()...), Value: draw.Pick(d.Rand, 0.1, 1, 3)}}
		if a.Kind == autoscale.KEDA {
			a.Min, a.Polling, a.Cooldown = d.IntN(2), 100, draw.Pick(d.Rand, sim.Time(0), 200)
			a.Targets = append(a.Targets, autoscale.Target{Metric: autoscale.Held, Value: 1})
		}
		a.Startup.Image.Mean = draw.Pick(d.Rand, sim.Time(0), 30, 1000)
		a.Down.Set, a.Down.Window = true, draw.Pick(d.Rand, sim.Time(0), 200)
		*[]**replay.Autoscale{&x.spec.Autoscale, &x.spec.AutoscaleDecode}[i] = &a
		x.spec.Pools[i].Count = min(max(x.spec.Pools[i].Count, max(a.Min, 1)), a.Max)
	}
}

// drawFaults draws workers that fail once or repeatedly.
func (x *trial) drawFaults(d *draw.Drawer) {
	d.Tags.Add("faults")
	f := &engines.Faults{
		OnLoss: draw.Pick(d.Rand, engines.LoseThem, engines.RetryThem), Limit: draw.Pick(d.Rand, 0, 1, 3, 100), After: draw.Pick(d.Rand, sim.Time(0), 5),
	}
	if !x.spec.Compat && d.Chance(2) {
		f.OnLoss = engines.MigrateThem
	}
	for range 1 + d.IntN(4) {
		f.Events = append(f.Events, engines.Fault{
			At: sim.Time(d.IntN(400)), Kind: draw.Pick(d.Rand, engines.Dies, engines.Dies, engines.Hangs, engines.Slows, engines.NoIndex, engines.Router, engines.Rolling),
			Pool: engines.Anywhere, Zone: engines.Anywhere, N: 1, For: sim.Time(d.IntN(300)), Back: draw.Pick(d.Rand, engines.Forever, 0, 50), Factor: draw.Pick(d.Rand, 0.5, 3),
		})
	}
	if d.Chance(3) {
		f.Laws = []engines.FaultLaw{{Pool: engines.Anywhere, Between: draw.Pick(d.Rand, sim.Time(1), 20, 300), Repair: sim.Time(d.IntN(20))}}
	}
	x.spec.Faults = f
}
