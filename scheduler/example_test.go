package scheduler_test

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// oneByOne is an engine that serves one request at a time: 1 ms per ten prompt tokens, 10 ms for every token after
// the first.
type oneByOne struct {
	scheduler.Base
	queue  []*sim.Request
	gained int      // tokens of the first request in the queue
	last   sim.Time // the instant of the request's latest token
}

// Submit queues r.
func (c *oneByOne) Submit(r *sim.Request) { c.queue = append(c.queue, r) }

// Load returns the number of requests that are not finished.
func (c *oneByOne) Load() int { return len(c.queue) }

// Step runs one pass, for any until.
func (c *oneByOne) Step(now, _ sim.Time, p *scheduler.Pass) error {
	p.Reset(now)
	r := c.queue[0]
	p.Count, p.Gap = 1, 10
	if c.gained == 0 {
		p.Gap = sim.Time(r.InputTokens) / 10
		p.PrefillTokens = r.InputTokens
		p.Admitted = append(p.Admitted, scheduler.Admission{Request: r.ID})
	}
	p.End = now + p.Gap
	c.gained++
	p.AddToken(r.ID, c.gained, r.OutputTokens, c.last, false)
	if c.last = p.End; c.gained == r.OutputTokens {
		c.queue, c.gained = c.queue[1:], 0
	}
	return nil
}

// Cut has nothing to release, because runs have one pass.
func (c *oneByOne) Cut(*scheduler.Pass, int) {}

// Cancel removes a request from the queue.
func (c *oneByOne) Cancel(now sim.Time, id sim.RequestID, p *scheduler.Pass) bool {
	i := slices.IndexFunc(c.queue, func(r *sim.Request) bool { return r.ID == id })
	if i < 0 {
		return false
	}
	if c.queue = slices.Delete(c.queue, i, i+1); i == 0 {
		c.gained = 0
	}
	p.Reset(now)
	return true
}

// Progress yields the request that is being served if it has a token.
func (c *oneByOne) Progress(yield func(id sim.RequestID, tokens int, last sim.Time)) {
	if c.gained > 0 {
		yield(c.queue[0].ID, c.gained, c.last)
	}
}

// SetClock changes nothing: passes always take the same time.
func (c *oneByOne) SetClock(timing.Clock) {}

// An engine is a Core, and its caller controls the clock.
func ExampleCore() {
	arrivals := []schedulertest.Arrival{
		{At: 0, Request: &sim.Request{ID: 0, InputTokens: 500, OutputTokens: 3}},
		{At: 20, Request: &sim.Request{ID: 1, InputTokens: 100, OutputTokens: 2}},
	}
	err := schedulertest.Replay(&oneByOne{}, arrivals, schedulertest.OneByOne, func(s schedulertest.Step) error {
		fmt.Printf("%3.0f to %3.0f ms:", float64(s.Start), float64(s.End))
		for _, m := range s.Marks {
			fmt.Printf(" request %d, token %d, first %t, last %t", m.Request, m.Tokens, m.First, m.Last)
		}
		fmt.Println()
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	//   0 to  50 ms: request 0, token 1, first true, last false
	//  50 to  60 ms:
	//  60 to  70 ms: request 0, token 3, first false, last true
	//  70 to  80 ms: request 1, token 1, first true, last false
	//  80 to  90 ms: request 1, token 2, first false, last true
}
