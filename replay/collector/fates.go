package collector

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// Outcome is how a request ended. Every request that arrives has exactly one outcome.
type Outcome uint8

const (
	Unfinished Outcome = iota // the replay ended before the request
	Completed                 // the request has its last token
	Rejected                  // no engine can run the request
	Shed                      // rejected because of overload
	Lost                      // the request's worker failed, and the request was not retried
)

func (o Outcome) String() string {
	return [...]string{"unfinished", "completed", "rejected", "shed", "lost"}[o]
}

// Fate is the outcome of a request with its retries, migrations and losses.
type Fate struct {
	Outcome    Outcome // Unfinished if only the tokens of the record determine the outcome
	Retries    int     // number of restarts from the prompt
	Migrations int     // number of moves to another worker without a loss of tokens
	LostTokens int     // gained tokens that were discarded
	Recomputed int     // prompt tokens computed again, and kept answer tokens computed as a prompt
	Reason     string  // reason of a rejection, as in the key of the report; "" if not rejected

	Sent     sim.Time // latest time at which the client sent the request, if clients may retry
	Resent   int      // number of retries by the client
	TimedOut int      // number of attempts that timed out

	carried int32 // tokens that it had when it arrived at its latest worker
	event   int   // 1 + the latest event that removed the request; 0: none
	again   bool  // the request was admitted before its worker failed, and not since
}

// EventCost is the cost of an event for the requests that it removed from workers.
type EventCost struct {
	Lost, Retried, Migrated int // numbers of requests
	LostTokens, Recomputed  int
}

// fates is the fates of requests that are not simply answered.
type fates struct {
	of         map[sim.RequestID]*Fate
	events     []EventCost
	moved      int  // departures of requests from workers
	kept       bool // see KeepOutcomes
	sent, late int  // see Attempts
}

// fateOf returns the fate of a request, and creates it if necessary.
func (f *fates) fateOf(id sim.RequestID) *Fate {
	if f.of == nil {
		f.of = make(map[sim.RequestID]*Fate)
	}
	x := f.of[id]
	if x == nil {
		x = new(Fate)
		f.of[id] = x
	}
	return x
}

// Fate returns the fate of a request. The result is the zero value if the request was simply answered or has not
// ended.
func (c *Collector) Fate(id sim.RequestID) Fate {
	if f := c.fates.of[id]; f != nil {
		return *f
	}
	return Fate{}
}

// OutcomeOf returns the outcome of a request.
func (c *Collector) OutcomeOf(id sim.RequestID) Outcome {
	if f := c.fates.of[id]; f != nil && f.Outcome != Unfinished {
		return f.Outcome
	}
	if r := c.Record(id); r.Counted() && r.Tokens >= r.OutputTokens {
		return Completed
	}
	return Unfinished
}

// KeepOutcomes records that requests may end without their last token.
func (c *Collector) KeepOutcomes() { c.fates.kept = true }

// KeepsOutcomes reports whether requests may end without their last token.
func (c *Collector) KeepsOutcomes() bool { return c.fates.kept }

// neverWaited reports whether a request was shed, or rejected before it was admitted.
func neverWaited(r *Record, how Outcome) bool {
	return how == Shed || how == Rejected && !r.Admitted()
}

// Admitted returns the records of all requests that were neither shed nor rejected before their admission.
func (c *Collector) Admitted() []Record {
	c.refuseFolding()
	if len(c.fates.of) == 0 {
		return c.records
	}
	var all []Record
	for id := range c.records {
		if !neverWaited(&c.records[id], c.OutcomeOf(sim.RequestID(id))) {
			all = append(all, c.records[id])
		}
	}
	return all
}

// BeginEvent returns the number, from 1, of a new event that removes requests from workers.
func (c *Collector) BeginEvent() int {
	c.fates.events = append(c.fates.events, EventCost{})
	return len(c.fates.events)
}

// EventCosts returns the cost of each event, in order of their numbers.
func (c *Collector) EventCosts() []EventCost { return c.fates.events }

// eventCost returns the cost of an event. Without an event, eventCost returns a scratch value.
func (f *fates) eventCost(event int) *EventCost {
	if event < 1 {
		return new(EventCost)
	}
	return &f.events[event-1]
}

// TokensOf returns the tokens of a request that has gained some on its latest worker, including tokens that it
// brought there.
func (c *Collector) TokensOf(id sim.RequestID, gained int) int {
	if f := c.fates.of[id]; f != nil {
		gained += int(f.carried)
	}
	return gained
}

// Retry records that a request has left its worker and restarts from its prompt. gained is the number of tokens that
// the request gained on this worker. The gained tokens are discarded together with the tokens that the request
// brought.
func (c *Collector) Retry(id sim.RequestID, gained, event int) {
	f := c.fates.fateOf(id)
	f.Retries++
	c.fates.moved++
	c.fates.eventCost(event).Retried++
	c.dropTokens(id, f, gained, event)
}

// Sent records that the client of a request sends it.
func (c *Collector) Sent(id sim.RequestID, at sim.Time) {
	c.fates.sent++
	c.fates.fateOf(id).Sent = at
}

// TimeOut records that the client of a request has stopped waiting for the first token.
func (c *Collector) TimeOut(id sim.RequestID) {
	c.fates.late++
	c.fates.fateOf(id).TimedOut++
}

// Resend records that a request has left the cluster and will be retried by its client. If an event removed the
// request, the request also counts as retried by the event. gained is the number of tokens that it gained on its
// latest worker.
func (c *Collector) Resend(id sim.RequestID, gained, event int) {
	f := c.fates.fateOf(id)
	f.Resent++
	c.fates.moved++
	if event > 0 {
		f.Retries++
		c.fates.eventCost(event).Retried++
	}
	c.dropTokens(id, f, gained, event)
}

// Attempts returns the number of times that clients have sent requests, and the number of timeouts. Attempts returns
// 0 for both numbers if clients neither time out nor retry.
func (c *Collector) Attempts() (sent, timedOut int) { return c.fates.sent, c.fates.late }

// dropTokens discards the tokens of a request.
func (c *Collector) dropTokens(id sim.RequestID, f *Fate, gained, event int) {
	r := c.Record(id)
	dropped := gained + int(f.carried)
	f.LostTokens += dropped
	f.carried, f.event, f.again = 0, event, r.Admitted()
	c.fates.eventCost(event).LostTokens += dropped
	r.Tokens, r.First, r.Second, r.Last = 0, 0, 0, 0
}

// Migrate records that a request continues on another worker with its tokens. The request gained some of its tokens
// on the old worker, the latest at the instant last.
func (c *Collector) Migrate(id sim.RequestID, gained int, last sim.Time, event int) {
	f := c.fates.fateOf(id)
	f.Migrations++
	c.fates.moved++
	c.fates.eventCost(event).Migrated++
	r := c.Record(id)
	f.carried += int32(gained)
	f.event, f.again = event, r.Admitted()
	if r.Tokens = f.carried; gained > 0 {
		r.Last = max(r.Last, last)
	}
}

// GiveUp records the outcome of a request that never gets its last token. gained is the number of tokens that it
// gained on its latest worker.
func (c *Collector) GiveUp(id sim.RequestID, how Outcome, gained, event int) {
	f := c.fates.fateOf(id)
	f.Outcome = how
	if event == 0 {
		event = f.event // the event that made it wait, if any
	}
	if how == Lost {
		c.fates.eventCost(event).Lost++
	}
	c.dropTokens(id, f, gained, event)
	c.endRecord(id)
}

// Reject records that no engine can run a request, with the reason. gained is as for GiveUp.
func (c *Collector) Reject(id sim.RequestID, reason string, gained int) {
	c.fates.fateOf(id).Reason = reason
	c.KeepOutcomes()
	c.GiveUp(id, Rejected, gained, 0)
}

// Outcomes returns the number of requests with each outcome, and the sums of retries, migrations, lost and recomputed
// tokens.
func (c *Collector) Outcomes() (by [Lost + 1]int, sum Fate) {
	if c.fold != nil {
		by, sum = c.fold.outcomes, c.fold.fates
	}
	for i := range c.records {
		by[c.OutcomeOf(sim.RequestID(c.first+i))]++
	}
	for _, f := range c.fates.of { // any order gives the same integer sums
		sum.add(f)
	}
	return by, sum
}

// add adds retries, migrations, lost and recomputed tokens.
func (f *Fate) add(more *Fate) {
	f.Retries += more.Retries
	f.Migrations += more.Migrations
	f.LostTokens += more.LostTokens
	f.Recomputed += more.Recomputed
}

// admitAgain records the recomputed tokens of an admission after a departure from a worker. admitAgain returns the
// prompt tokens found in a cache.
func (c *Collector) admitAgain(a scheduler.Admission) (reused int) {
	f := c.fates.of[a.Request]
	if f == nil {
		return a.Reused
	}
	input := int(c.Record(a.Request).InputTokens)
	if f.again {
		f.again = false
		again := max(0, input+int(f.carried)-a.Reused)
		f.Recomputed += again
		c.fates.eventCost(f.event).Recomputed += again
	}
	return min(a.Reused, input)
}

// carriedBy returns the tokens that a request had when it arrived at its latest worker.
func (f *fates) carriedBy(id sim.RequestID) int32 {
	if f.moved == 0 {
		return 0
	}
	if x := f.of[id]; x != nil {
		return x.carried
	}
	return 0
}

// noteCarried records a first or last token, on its latest worker, of a request that brought tokens there.
func (c *Collector) noteCarried(p *scheduler.Pass, m *scheduler.Mark, carried int32) {
	r := c.Record(m.Request)
	if m.First {
		if c.window.Holds(p.End) {
			c.noteGap(p, p.End-r.Last)
		}
		if r.Last, r.Tokens = p.End, carried+1; carried == 1 {
			r.Second = p.End
		}
	}
	if m.Last {
		r.Last, r.Tokens = p.End, carried+int32(m.Tokens)
		if r.Tokens < r.OutputTokens {
			c.noteClipped(r)
		}
		c.endRecord(m.Request)
	}
}

// noteGap records the time between two tokens of a request, in whole ns if p has whole ns.
func (c *Collector) noteGap(p *scheduler.Pass, gap sim.Time) {
	if len(p.Nanos) > 0 {
		if n, ok := timing.InNanos(float64(gap.Max0())); ok {
			c.spans.add([]int64{n}, 1)
			return
		}
	}
	c.gaps.add(gap, 1)
}
