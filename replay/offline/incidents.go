package offline

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/sim"
)

// incident is something that happens to a cluster at an instant and is no effect of its passes: a fault, its end, a
// request that returns, an observer that acts. At one instant incidents come after ends and before arrivals, in the
// order in which they were scheduled (docs/rules/harness.md, Order of effects at one instant).
type incident interface {
	happen(c *cluster) error
}

// agenda is the incidents to come.
type agenda struct {
	c      *cluster
	all    []incident // by the number that its event has
	vacant []int
	made   uint64
	barren int // that happened since a request has ended, or there was none
	done   int // requests that had ended then
}

// barrenIncidents is the number of incidents in a row without a request that ends which
// counts as a stall.
const barrenIncidents = 1_000_000

// schedule lets an incident happen at an instant, now or later.
func (a *agenda) schedule(at sim.Time, x incident) {
	i := len(a.all)
	if k := len(a.vacant); k > 0 {
		i, a.vacant = a.vacant[k-1], a.vacant[:k-1]
		a.all[i] = x
	} else {
		a.all = append(a.all, x)
	}
	a.made++
	a.c.pending++
	a.c.events.push(event{at: max(at, a.c.now), order: order{made: sim.Time(math.Inf(1)), rank: a.made}, kind: incidentDue, request: sim.RequestID(i)})
}

// fireIncident lets an incident happen.
func (a *agenda) fireIncident(i int) error {
	x := a.all[i]
	a.all[i], a.vacant = nil, append(a.vacant, i)
	if a.done != a.c.done || a.c.countInFlight() == 0 && a.c.transit == 0 {
		a.done, a.barren = a.c.done, 0
	}
	if a.barren++; a.barren > barrenIncidents {
		return fmt.Errorf("stalled at %v ms: %d incidents in a row and no request has ended, %s", float64(a.c.now), barrenIncidents, a.describeOpen())
	}
	return x.happen(a.c)
}

// describeOpen names the first request that has not ended.
func (a *agenda) describeOpen() string {
	open, first := 0, ""
	for _, q := range a.c.Requests.All() {
		if open++; open == 1 {
			first = a.c.Place(q)
		}
	}
	return fmt.Sprintf("%d requests are open, the first is %s", open, first)
}

// isOver reports whether nothing but incidents is to come.
func (a *agenda) isOver() bool { return a.c.events[0].kind == incidentDue && a.c.isIdle() }

// isPast reports whether the last request ended before now, where incidents are to come.
func (a *agenda) isPast() bool { return a.c.lives.tracked && a.c.isIdle() && a.c.now > a.c.ended }

// openLives prepares for requests that leave their workers.
func (c *cluster) openLives() {
	c.lives.tracked = c.hasIncidents()
	if c.lives.rules = c.Faults; c.Faults == nil {
		c.lives.rules = &engines.Faults{OnLoss: engines.RetryThem, Limit: engines.DefaultLimit}
	}
	if c.clients.rules = c.Client; c.MayLose() || c.Client != nil {
		c.Collector.KeepOutcomes()
	}
	for _, p := range c.pools {
		for _, k := range p.Kinds() {
			p.drafts = p.drafts || k.Engine.Speculative != nil
		}
	}
}

// hasIncidents reports whether something may happen to workers or requests that is no
// effect of passes.
func (r *run) hasIncidents() bool { return r.MayFail() || r.Client != nil || r.Autoscales() }
