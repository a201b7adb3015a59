package offline

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/sim"
)

// incident is an effect that is not an effect of passes: a fault, its end, a request that returns, or an action of an
// observer. At one instant, incidents follow the ends of passes and precede arrivals, in the order in which they were
// scheduled (docs/rules/harness.md, Order of effects at one instant).
type incident interface {
	happen(c *cluster) error
}

// agenda is the future incidents.
type agenda struct {
	c      *cluster
	all    []incident // incidents by the index in their event
	vacant []int
	made   uint64
	barren int // incidents since a request last ended or none was in flight
	done   int // requests that had ended at that time
}

// barrenIncidents is the limit of incidents in a row without the end of a request. A replay above the limit has
// stalled.
const barrenIncidents = 1_000_000

// schedule adds an incident at an instant, now or later.
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

// fireIncident applies an incident.
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

// describeOpen returns the number of requests that have not ended, and names the first of them.
func (a *agenda) describeOpen() string {
	open, first := 0, ""
	for _, q := range a.c.Requests.All() {
		if open++; open == 1 {
			first = a.c.Place(q)
		}
	}
	return fmt.Sprintf("%d requests are open, the first is %s", open, first)
}

// isOver reports whether only incidents are left.
func (a *agenda) isOver() bool { return a.c.events[0].kind == incidentDue && a.c.isIdle() }

// isPast reports whether the last request ended before now, in a replay with incidents.
func (a *agenda) isPast() bool { return a.c.lives.tracked && a.c.isIdle() && a.c.now > a.c.ended }

// openLives prepares the cluster for requests that leave their workers early.
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

// hasIncidents reports whether workers or requests may have effects that are not effects of passes.
func (r *run) hasIncidents() bool { return r.MayFail() || r.Client != nil || r.Autoscales() }
