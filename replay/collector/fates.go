package collector

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// Outcome is how a request ended. Every request that arrives ends in exactly one way.
type Outcome uint8

const (
	Unfinished Outcome = iota // the replay was ended before the request
	Completed                 // it has its last token
	Rejected                  // no engine could ever run it
	Shed                      // it was turned away because there was too much to do
	Lost                      // its worker failed, and it was not begun again
)

func (o Outcome) String() string {
	return [...]string{"unfinished", "completed", "rejected", "shed", "lost"}[o]
}

// Fate is what happened to a request that was not simply answered.
type Fate struct {
	Outcome    Outcome // Unfinished while only its tokens show how it ended
	Retries    int     // times it began again from its prompt
	Migrations int     // times it continued on another worker with its tokens
	LostTokens int     // tokens that it had gained and were thrown away
	Recomputed int     // prompt tokens computed again, and answer tokens that it took along
	Reason     string  // why it was rejected, as in the key of the report; "" if it was not

	Sent     sim.Time // when its client sent it last, where clients send again
	Resent   int      // times that its client sent it again
	TimedOut int      // of all these times, those in which its client hung up

	carried int32 // tokens that it had when it came to its latest worker
	event   int   // 1 + the event that threw it out last; 0: none
	again   bool  // it was admitted before, and not since it was thrown out
}

// EventCost is what an event cost the requests that it threw out.
type EventCost struct {
	Lost, Retried, Migrated int // requests
	LostTokens, Recomputed  int
}

// fates are those of requests that were not simply answered.
type fates struct {
	of         map[sim.RequestID]*Fate
	events     []EventCost
	moved      int  // requests that have left a worker
	kept       bool // see KeepOutcomes
	sent, late int  // see Attempts
}

// fateOf returns the fate of a request, made where it had none.
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

// Fate returns the fate of a request; the zero value where it was simply answered, or is
// yet to be.
func (c *Collector) Fate(id sim.RequestID) Fate {
	if f := c.fates.of[id]; f != nil {
		return *f
	}
	return Fate{}
}

// OutcomeOf returns how a request ended.
func (c *Collector) OutcomeOf(id sim.RequestID) Outcome {
	if f := c.fates.of[id]; f != nil && f.Outcome != Unfinished {
		return f.Outcome
	}
	if r := c.Record(id); r.Counted() && r.Tokens >= r.OutputTokens {
		return Completed
	}
	return Unfinished
}

// KeepOutcomes notes that requests may end in other ways than with their last token.
func (c *Collector) KeepOutcomes() { c.fates.kept = true }

// KeepsOutcomes reports whether requests may end in other ways.
func (c *Collector) KeepsOutcomes() bool { return c.fates.kept }

// neverWaited reports whether a request never waited for the cluster: it was shed, or rejected before it was admitted.
func neverWaited(r *Record, how Outcome) bool {
	return how == Shed || how == Rejected && !r.Admitted()
}

// LetIn returns the records of the requests that were admitted or waited for it: all but those shed or rejected on arrival.
func (c *Collector) LetIn() []Record {
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

// BeginEvent returns the number, from 1, of an event that throws requests out.
func (c *Collector) BeginEvent() int {
	c.fates.events = append(c.fates.events, EventCost{})
	return len(c.fates.events)
}

// EventCosts returns what each event cost, in order of their numbers.
func (c *Collector) EventCosts() []EventCost { return c.fates.events }

// eventCost returns the cost of an event; costs without an event are dropped.
func (f *fates) eventCost(event int) *EventCost {
	if event < 1 {
		return new(EventCost)
	}
	return &f.events[event-1]
}

// TokensOf returns the tokens of a request that gained some of them on its latest worker.
func (c *Collector) TokensOf(id sim.RequestID, gained int) int {
	if f := c.fates.of[id]; f != nil {
		gained += int(f.carried)
	}
	return gained
}

// Retry notes that a request has left its worker and begins again from its prompt.
// It had gained some tokens there, which are thrown away with those it had brought.
func (c *Collector) Retry(id sim.RequestID, gained, event int) {
	f := c.fates.fateOf(id)
	f.Retries++
	c.fates.moved++
	c.fates.eventCost(event).Retried++
	c.dropTokens(id, f, gained, event)
}

// Sent notes that the client of a request sends it.
func (c *Collector) Sent(id sim.RequestID, at sim.Time) {
	c.fates.sent++
	c.fates.fateOf(id).Sent = at
}

// TimeOut notes that the client of a request waits for its first token no more.
func (c *Collector) TimeOut(id sim.RequestID) {
	c.fates.late++
	c.fates.fateOf(id).TimedOut++
}

// Resend notes that a request has left the cluster and will be sent again: as a request that begins
// again, if an event has thrown it out. It had gained some tokens on its latest worker.
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

// Attempts returns how often clients have sent their requests, and how often they hung up; 0 if
// each sends its request once, and waits.
func (c *Collector) Attempts() (sent, timedOut int) { return c.fates.sent, c.fates.late }

// dropTokens throws away the tokens of a request.
func (c *Collector) dropTokens(id sim.RequestID, f *Fate, gained, event int) {
	r := c.Record(id)
	dropped := gained + int(f.carried)
	f.LostTokens += dropped
	f.carried, f.event, f.again = 0, event, r.Admitted()
	c.fates.eventCost(event).LostTokens += dropped
	r.Tokens, r.First, r.Second, r.Last = 0, 0, 0, 0
}

// Migrate notes that a request continues on another worker with its tokens, the latest of which came at an instant.
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

// GiveUp notes how a request ended that never gets its last token. It had gained some
// tokens on its latest worker.
func (c *Collector) GiveUp(id sim.RequestID, how Outcome, gained, event int) {
	f := c.fates.fateOf(id)
	f.Outcome = how
	if event == 0 {
		event = f.event // which made it wait, if one has
	}
	if how == Lost {
		c.fates.eventCost(event).Lost++
	}
	c.dropTokens(id, f, gained, event)
	c.endRecord(id)
}

// Reject ends a request that no engine can run, for a reason; gained is as of GiveUp.
func (c *Collector) Reject(id sim.RequestID, reason string, gained int) {
	c.fates.fateOf(id).Reason = reason
	c.KeepOutcomes()
	c.GiveUp(id, Rejected, gained, 0)
}

// Outcomes counts the requests that ended in each way, and what was thrown away and computed again.
func (c *Collector) Outcomes() (by [Lost + 1]int, sum Fate) {
	if c.fold != nil {
		by, sum = c.fold.outcomes, c.fold.fates
	}
	for i := range c.records {
		by[c.OutcomeOf(sim.RequestID(c.first+i))]++
	}
	for _, f := range c.fates.of { // in any order: sums of whole numbers
		sum.add(f)
	}
	return by, sum
}

// add adds what was thrown away and computed again.
func (f *Fate) add(more *Fate) {
	f.Retries += more.Retries
	f.Migrations += more.Migrations
	f.LostTokens += more.LostTokens
	f.Recomputed += more.Recomputed
}

// admitAgain notes what a request that was thrown out computes once more. It returns the
// its prompt tokens that were found in a cache.
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

// carriedBy returns the tokens that a request had when it came to its latest worker.
func (f *fates) carriedBy(id sim.RequestID) int32 {
	if f.moved == 0 {
		return 0
	}
	if x := f.of[id]; x != nil {
		return x.carried
	}
	return 0
}

// noteCarried notes a first or last token of a request that brought some along: the first
// one here follows the one before after a while.
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

// noteGap notes the time that a request was without a token, in whole ns where those of p are.
func (c *Collector) noteGap(p *scheduler.Pass, gap sim.Time) {
	if len(p.Nanos) > 0 {
		if n, ok := timing.InNanos(float64(gap.Max0())); ok {
			c.spans.add([]int64{n}, 1)
			return
		}
	}
	c.gaps.add(gap, 1)
}
