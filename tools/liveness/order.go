package main

import (
	"fmt"
	"strings"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/tools/draw"
)

// drawOrder draws the priority settings of SGLang's rules, and seats few enough for preemptions.
func (x *trial) drawOrder(d *draw.Drawer) {
	if x.spec.Compat || x.spec.Pools[0].Engine.Engine != engineargs.SGLang || !d.Chance(2) {
		return
	}
	d.Tags.Add("order")
	for i := range x.spec.Pools {
		s := &x.spec.Pools[i].Engine.SGLang
		s.Policy, s.MaxRunning = draw.Pick(d.Rand, "fcfs", "lof"), draw.Pick(d.Rand, 0, 1, 2, 5)
		s.NoOverlap, s.MixedChunk = d.Chance(3), d.Chance(3)
		if s.Window == 0 || s.NoWindowPool {
			s.Eviction.ProtectedHits, s.Eviction.Threshold = 2, 30
			for range d.IntN(5) {
				s.Eviction.Policy++
			}
		}
		if d.Chance(3) {
			s.DecodeInterval, s.IntervalSeats = 1+d.IntN(30), draw.Pick(d.Rand, 0, 2)
		}
		if d.Chance(4) {
			s.Policy = draw.Pick(d.Rand, "shortest-prefill-first", "random")
			continue
		}
		p := &s.Priorities
		p.On, p.LowFirst, p.Preempt, p.Threshold, p.Retract = true, d.Chance(2), true, draw.Pick(d.Rand, 0, 0, 3), d.Chance(2)
	}
	lines := strings.SplitAfter(d.Trace, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "{") {
			lines[i] = fmt.Sprintf(`{"priority":%d,%s`, d.IntN(6), line[1:])
		}
	}
	d.Trace = strings.Join(lines, "")
}
