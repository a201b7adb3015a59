package engines

import (
	"fmt"
	"math"
	"strings"

	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// speedOf returns the speed of a worker of pool i, relative to its engine.
func (t *Topology) speedOf(i int, id sim.WorkerID) float64 {
	if i < len(t.WorkerSpeeds) && int(id) < len(t.WorkerSpeeds[i]) {
		return t.WorkerSpeeds[i][id]
	}
	return 1
}

// checkSpeeds rejects speeds that do not match the workers.
func (t *Topology) checkSpeeds() error {
	for i, speeds := range t.WorkerSpeeds {
		switch {
		case len(speeds) == 0:
			continue
		case i >= len(t.Pools) || len(speeds) != t.Pools[i].Count:
			count := 0
			if i < len(t.Pools) {
				count = t.Pools[i].Count
			}
			return fmt.Errorf("worker speeds are %d for %d workers, must be one for each", len(speeds), count)
		case len(t.Scale) > 0:
			return fmt.Errorf("worker speeds are given for workers that start and stop, must be pools of a fixed size")
		}
		for id, speed := range speeds {
			if !(speed > 0) || math.IsInf(speed, 0) {
				return fmt.Errorf("the speed of worker %d is %v, must be a number above 0", id, speed)
			}
		}
	}
	return nil
}

// mostListed is the maximum number of workers that an assumption lists.
const mostListed = 8

// describeSpeeds lists the workers of pool i with a different speed than their engine, "" if there are none.
func (t *Topology) describeSpeeds(i int) string {
	if i >= len(t.WorkerSpeeds) {
		return ""
	}
	var listed []string
	more := 0
	for id, speed := range t.WorkerSpeeds[i] {
		switch {
		case speed == 1:
		case len(listed) < mostListed:
			listed = append(listed, fmt.Sprintf("worker %d at %g", id, speed))
		default:
			more++
		}
	}
	if len(listed) == 0 {
		return ""
	}
	text := strings.Join(listed, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + " times the speed of these pass times"
}

// ClockOf returns the clock of a worker, which determines the duration of its passes.
func (s *Stage) ClockOf(id sim.WorkerID) timing.Clock { return s.at(id).Clock }

// at returns s with the engine and the clock of a worker: for its kind and its speed.
func (s *Stage) at(id sim.WorkerID) *Stage {
	speed := s.speedOf(s.index, id)
	if len(s.kinds) > 0 {
		s = s.kinds[s.KindOf(id)]
	}
	if speed == 1 {
		return s
	}
	own, c := *s, &s.Clock
	base := c.Speedup
	if base <= 0 {
		base = 1
	}
	own.Clock.Speedup = float64(base * speed)
	if c.DecodeSpeedup <= 0 || c.Speedup <= 0 { // decode times were not scaled
		own.Clock.DecodeSpeedup = 1 / base
	}
	return &own
}
