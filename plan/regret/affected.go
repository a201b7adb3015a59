package regret

import (
	"slices"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/sim"
)

// key identifies a request in all copies of a replay. Ids do not, since they are in order of arrival, which may
// differ.
type key struct{ session, turn int32 }

// affected holds the requests that a decision affects: requests in flight at the decision, and requests that arrive
// up to the horizon. affected moves from one decision to later decisions.
type affected struct {
	*finder
	placed  int             // number of routed decisions that were read
	seated  []decision      // decisions of these with unfinished requests
	arrived sim.RequestID   // number of records that were read
	open    []sim.RequestID // of these, not over

	members []sim.RequestID // in the run
	index   map[key]int32   // index of each member
	until   sim.Time        // end of the last member in the run

	ttft, e2e []sim.Time // of members, in the run
}

func (f *finder) newAffected() *affected { return &affected{finder: f} }

// moveTo moves to a decision; place is its index among the decisions of the run.
func (c *affected) moveTo(d *Decision, place int) {
	for ; c.placed < place; c.placed++ {
		c.seated = append(c.seated, c.routed[c.placed])
	}
	kept := c.seated[:0]
	for _, s := range c.seated {
		r := &c.records[s.request]
		if r.Last <= d.At && r.Tokens > 0 {
			continue
		}
		kept = append(kept, s)
		if o := &d.Outcomes[s.worker]; r.Admitted() && r.Admit < d.At {
			o.Running++
		} else {
			o.Waiting++
		}
	}
	c.seated = kept
	c.gather(d)
}

// gather collects the members at a decision.
func (c *affected) gather(d *Decision) {
	c.members, c.until = c.members[:0], d.At
	for ; int(c.arrived) < len(c.records) && c.records[c.arrived].Arrival <= d.At; c.arrived++ {
		c.open = append(c.open, c.arrived)
	}
	c.open = slices.DeleteFunc(c.open, func(id sim.RequestID) bool {
		r := &c.records[id]
		return r.Tokens == 0 || r.Last <= d.At && id != d.Request
	})
	c.members = append(c.members, c.open...)
	for id := c.arrived; int(id) < len(c.records) && c.records[id].Arrival <= d.At+c.Horizon; id++ {
		if c.records[id].Tokens > 0 {
			c.members = append(c.members, id)
		}
	}
	d.Affected = len(c.members)
	c.index = make(map[key]int32, len(c.members))
	c.ttft, c.e2e = make([]sim.Time, d.Affected), make([]sim.Time, d.Affected)
	for i, id := range c.members {
		r := &c.records[id]
		c.index[key{r.Session, r.Turn}] = int32(i)
		c.ttft[i], c.e2e[i] = r.TTFT(), r.E2E()
		c.until = max(c.until, r.Last)
	}
}

// times returns the times of the members in a copy of the replay. ok is false while a member is unfinished.
func (c *affected) times(copied *collector.Collector) (ttft, e2e []sim.Time, over bool) {
	ttft, e2e = make([]sim.Time, len(c.members)), make([]sim.Time, len(c.members))
	left, records := len(c.members), copied.Records()
	for id := c.members[0]; int(id) < len(records) && left > 0; id++ {
		r := &records[id]
		i, ok := c.index[key{r.Session, r.Turn}]
		switch {
		case !ok:
		case !r.Counted() || r.Tokens < r.OutputTokens:
			return nil, nil, false
		default:
			ttft[i], e2e[i] = r.TTFT(), r.E2E()
			left--
		}
	}
	return ttft, e2e, left == 0
}

// fill stores the results of the request and of all members in a copy of the replay. All members must be finished.
func (c *affected) fill(o *Outcome, copied *collector.Collector, d *Decision) {
	ttft, e2e, _ := c.times(copied)
	own := c.index[key{d.Session, d.Turn}]
	o.TTFT, o.E2E = ttft[own], e2e[own]
	for i := range ttft {
		o.AllTTFT += ttft[i]
		o.AllE2E += e2e[i]
	}
	n := sim.Time(len(ttft))
	o.AllTTFT, o.AllE2E = o.AllTTFT/n, o.AllE2E/n
	again, _ := copied.Readmitted(d.Request)
	o.Cached = int(copied.Records()[d.Request].Reused) - again
}
