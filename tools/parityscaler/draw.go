package main

import (
	"math/rand/v2"
	"slices"

	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/tools/draw"
)

const second sim.Time = 1000

// drawConfig returns random settings that Check accepts.
func drawConfig(r *rand.Rand, kind autoscale.Kind) autoscale.Config {
	for {
		c := autoscale.Default(kind)
		c.Sync = second * sim.Time(draw.Pick(r, 15, 15, 15, 5, 10, 30, 60))
		c.Min = draw.Pick(r, 0, 0, 1, 1, 2, 3, 5)
		c.Max = c.Min + draw.Pick(r, 0, 1, 3, 5, 10, 20, 40)
		if r.IntN(3) == 0 {
			c.Tolerance = draw.Pick(r, 0, 0.05, 0.2, 0.33, r.Float64()/2)
		}
		for range draw.Pick(r, 1, 1, 2, 3) {
			c.Targets = append(c.Targets, drawTarget(r, kind))
		}
		if r.IntN(3) > 0 {
			drawBehavior(r, &c.Up)
		}
		if r.IntN(4) > 0 {
			drawBehavior(r, &c.Down)
		}
		if kind == autoscale.KEDA {
			drawActivation(r, &c)
		}
		if c.Check() == nil {
			return c
		}
	}
}

func drawTarget(r *rand.Rand, kind autoscale.Kind) autoscale.Target {
	t := autoscale.Target{Metric: draw.Pick(r, autoscale.Metrics()...)}
	switch {
	case t.Metric == autoscale.KVUsage:
		t.Value = draw.Pick(r, 0.8, 0.5, 0.29, 0.0005, r.Float64()+0.01)
	case slices.Contains(autoscale.Rates(), t.Metric):
		t.Value = draw.Pick(r, 1, 2.5, 1.1, 0.333, 1000, 1+20*r.Float64())
	default:
		t.Value = draw.Pick(r, 1, 2, 4, 8, 10, 3.5, 0.7)
	}
	if kind == autoscale.KEDA && r.IntN(2) == 0 {
		t.Activation = t.Value * draw.Pick(r, 0.5, 1, 2)
	}
	return t
}

// drawBehavior draws the limits on changes in one direction.
func drawBehavior(r *rand.Rand, b *autoscale.Behavior) {
	b.Set = true
	if r.IntN(4) > 0 {
		b.Window = second * sim.Time(draw.Pick(r, 0, 0, 15, 30, 60, 120, 300, 7, 600))
	}
	if r.IntN(3) > 0 {
		b.Policies = nil
		for range 1 + r.IntN(3) {
			p := autoscale.Policy{Period: second * sim.Time(draw.Pick(r, 15, 30, 60, 60, 120, 1, 44, 600))}
			if r.IntN(2) == 0 {
				p.Workers = draw.Pick(r, 1, 2, 3, 4, 10)
			} else {
				p.Percent = float64(draw.Pick(r, 1, 10, 20, 50, 100, 200, 33))
			}
			b.Policies = append(b.Policies, p)
		}
	}
	b.Least = r.IntN(4) == 0
	b.Off = r.IntN(12) == 0
	if r.IntN(4) == 0 {
		b.Tolerance = new(draw.Pick(r, 0, 0.01, 0.05, 0.07, 0.15, 0.3, 0.5))
	}
}

// drawActivation draws the settings that only KEDA has.
func drawActivation(r *rand.Rand, c *autoscale.Config) {
	c.Polling = c.Sync * sim.Time(draw.Pick(r, 1, 1, 2, 3))
	c.Cooldown = second * sim.Time(draw.Pick(r, 0, 15, 30, 60, 100, 300))
	if c.Min > 0 && r.IntN(2) == 0 {
		c.Idle = new(r.IntN(c.Min))
	}
	if r.IntN(2) == 0 {
		c.Fallback = &autoscale.Fallback{Failures: r.IntN(4), Workers: r.IntN(8)}
	}
}
