package autoscale

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/sim"
)

// Slot is a number of workers from an instant on.
type Slot struct {
	At      sim.Time `yaml:"at"`
	Workers int      `yaml:"workers" is:"0..100000"`
}

// schedule requests a number of workers by time (docs/autoscaling.md, Schedule).
type schedule struct {
	c *Config
	reason
}

// Want returns the number of workers.
func (x *schedule) Want(s *Signals) int {
	now := s.Now
	if x.c.Every > 0 {
		now = sim.Time(math.Mod(float64(now), float64(x.c.Every)))
	}
	n := s.Workers
	x.why = "no slot has begun"
	for i := range x.c.Slots {
		if slot := &x.c.Slots[i]; slot.At <= now {
			n, x.why = slot.Workers, fmt.Sprintf("the slot from %gs on has %d", float64(slot.At)/1000, slot.Workers)
		}
	}
	return n
}
