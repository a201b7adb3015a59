package offline

import (
	"math"

	"github.com/replay-llm/replay/sim"
)

// dueTable has for each worker the instant before which nothing happens on it (driveLazily). dueTable also has the
// minimum of each group of dueGroup workers, so that an arrival does not visit all workers.
type dueTable struct{ at, least []sim.Time }

const dueGroup = 8

// visit calls advance for each worker that is due at now, in the order of ids. advance returns when the worker is due
// next.
func (d *dueTable) visit(now sim.Time, advance func(worker int) (again sim.Time, err error)) error {
	for g, least := range d.least {
		if least > now {
			continue
		}
		d.least[g] = sim.Time(math.Inf(1))
		from := g * dueGroup
		for i, due := range d.at[from:min(from+dueGroup, len(d.at))] {
			if due <= now {
				var err error
				if due, err = advance(from + i); err != nil {
					return err
				}
				d.at[from+i] = due
			}
			d.least[g] = min(d.least[g], due)
		}
	}
	return nil
}
