package offline

import (
	"math"

	"github.com/replay-llm/replay/sim"
)

// dueTable has the instants before which nothing happens on workers (driveLazily), and the least of each dueGroup of
// them, so that an arrival does not go through all workers.
type dueTable struct {
	at    []sim.Time // by worker
	least []sim.Time // by group; at most the least of it
}

// dueGroup is the number of workers of a group.
const dueGroup = 32

// newDueTable returns a table in which all of so many workers are due.
func newDueTable(workers int) *dueTable {
	return &dueTable{make([]sim.Time, workers), make([]sim.Time, (workers+dueGroup-1)/dueGroup)}
}

// reset makes a worker due.
func (d *dueTable) reset(worker int) {
	if d != nil {
		d.at[worker], d.least[worker/dueGroup] = 0, 0
	}
}

// resetAll makes all workers due.
func (d *dueTable) resetAll() {
	clear(d.at)
	clear(d.least)
}

// visit calls bring for each worker that is due at an instant, in the order of their ids. bring returns when the worker
// is due again.
func (d *dueTable) visit(now sim.Time, bring func(worker int) (again sim.Time, err error)) error {
	for g, least := range d.least {
		if least > now {
			continue
		}
		d.least[g] = sim.Time(math.Inf(1))
		from := g * dueGroup
		for i, due := range d.at[from:min(from+dueGroup, len(d.at))] {
			if due <= now {
				var err error
				if due, err = bring(from + i); err != nil {
					return err
				}
				d.at[from+i] = due
			}
			d.least[g] = min(d.least[g], due)
		}
	}
	return nil
}
