// Package lockstep simulates a worker of several data-parallel ranks. Each rank has a separate scheduler and KV
// blocks. All ranks begin and end their passes together, because they share the expert layers.
//
// A pass lasts as long as a pass with the maximum over all ranks of tokens, requests, KV cache and prompt attention,
// or as long as the pass of the slowest rank. Ranks without requests wait for the other ranks. A request goes to the
// first rank with the least 4·waiting + running, unless a Balancer chooses.
package lockstep

import (
	"errors"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// Rank is a scheduler with pass durations that the caller sets.
type Rank interface {
	scheduler.Core
	// Begin plans the pass that starts at now and returns its work. End runs this pass; the caller sets its end
	// first.
	Begin(now sim.Time, p *scheduler.Pass) (*timing.Step, error)
	End(p *scheduler.Pass) error
	// Line returns the numbers of waiting and running requests.
	Line() (waiting, running int)
	// WaitsUntil returns the end of the current pass if no rank computes anything. The result is before the start of
	// the pass if the rank does not wait for transfers of KV blocks.
	WaitsUntil() sim.Time
}

// Planner is a rank that plans a pass while the previous pass runs. If some ranks have planned the next pass, it
// begins without the ranks that have not.
type Planner interface {
	// Planned reports whether the next pass is planned.
	Planned() bool
	// Wait is called instead of Begin on a rank that does not take part in the next pass. Wait returns how long, in
	// ms, the pass waits for this rank. End ends the pass.
	Wait(now sim.Time, p *scheduler.Pass) float64
	// CopyTime returns how long, in ms, the current pass waits for copies of KV blocks.
	CopyTime(now sim.Time) float64
}

// Options configure the ranks of a worker.
type Options struct {
	Clock timing.Clock
	// Slowest makes a pass as long as the pass of its slowest rank.
	Slowest bool
	// Balancer chooses the rank of a request; nil: the least 4·waiting + running.
	Balancer Balancer
	// Sleeps delays the start of a pass until its sleeping ranks have woken up.
	Sleeps bool
	// Planners are the ranks, in order, if they plan passes ahead; otherwise nil.
	Planners []Planner
}

// Balancer assigns requests to ranks.
type Balancer interface {
	// Choose returns the index of the rank for a request.
	Choose(r *sim.Request) int
}

// Core is a worker of several ranks.
type Core struct {
	scheduler.Base
	Options
	ranks []rank
	// holders counts the ranks with a block, by its sequence hash, if events are captured. The worker has the block
	// as long as any rank has it.
	holders map[uint64]int32
}

// rank is a rank with its results of the current pass.
type rank struct {
	Rank
	planner Planner // the rank as a planner; nil if it does not plan ahead
	pass    scheduler.Pass
	begun   bool
	aborted []scheduler.Abort // aborted by a Begin that returned a StallError
}

// New returns a worker of the given ranks; at least one is required.
func New(ranks []Rank, o Options) *Core {
	c := &Core{Options: o, holders: map[uint64]int32{}}
	for i, r := range ranks {
		c.ranks = append(c.ranks, rank{Rank: r})
		if o.Planners != nil {
			c.ranks[i].planner = o.Planners[i]
		}
	}
	return c
}

// Load returns the number of submitted requests that are not finished.
func (c *Core) Load() int {
	all := 0
	for i := range c.ranks {
		all += c.ranks[i].Load()
	}
	return all
}

// Submit queues r at a rank.
func (c *Core) Submit(r *sim.Request) {
	if c.Balancer != nil {
		c.ranks[c.Balancer.Choose(r)].Submit(r)
		return
	}
	best, least := 0, 0
	for i := range c.ranks {
		waiting, running := c.ranks[i].Line()
		if line := 4*waiting + running; i == 0 || line < least {
			best, least = i, line
		}
	}
	c.ranks[best].Submit(r)
}

// Step runs one pass, which starts at now, on all ranks.
func (c *Core) Step(now, _ sim.Time, p *scheduler.Pass) error {
	ms, delay, err := c.beginPasses(now, p.Detail != nil)
	if err != nil {
		return err
	}
	p.Reset(now)
	if !c.Sleeps {
		ms, delay = ms+delay, 0
	}
	if p.End = now + sim.Time(delay) + sim.Time(ms); ms == 0 {
		p.End = c.waitsUntil(now)
	}
	p.Gap = p.End - p.Start
	if n, ok := timing.InNanos(ms); ok {
		p.Nanos = append(p.Nanos, n)
	}
	for i := range c.ranks {
		r := &c.ranks[i]
		if !r.begun && r.planner == nil {
			continue
		}
		r.pass.End = p.End
		if err := r.End(&r.pass); err != nil {
			return err
		}
		c.join(p, &r.pass, int32(i))
	}
	return nil
}

// waitsUntil returns the earliest end of the waits of all ranks, or now.
func (c *Core) waitsUntil(now sim.Time) sim.Time {
	end := now
	for i := range c.ranks {
		if at := c.ranks[i].WaitsUntil(); c.ranks[i].begun && at > now && (end == now || at < end) {
			end = at
		}
	}
	return end
}

// beginPasses begins a pass on all ranks that can run. beginPasses returns the duration of the pass and its delay by
// ranks that it waits for, in ms.
func (c *Core) beginPasses(now sim.Time, detail bool) (ms, delay float64, err error) {
	planned, begun, did := c.isPlanned(), false, false
	var all work
	var stalled error
	for i := range c.ranks {
		r := &c.ranks[i]
		if detail && r.pass.Detail == nil {
			r.pass.Detail = new(scheduler.Detail)
		}
		if r.begun = r.Load() > 0 && (!planned || r.planner.Planned()); r.begun {
			step, err := r.Begin(now, &r.pass)
			if err == nil {
				err = c.add(&all, step)
			}
			var stall *scheduler.StallError
			if r.planner != nil && errors.As(err, &stall) {
				r.begun, stalled = false, err
				r.aborted = append(r.aborted, r.pass.Aborted...)
			} else if err != nil {
				return 0, 0, err
			} else if r.planner != nil {
				delay = max(delay, r.planner.CopyTime(now))
			}
			begun = begun || r.begun
		}
		if !r.begun && r.planner != nil {
			delay = max(delay, r.planner.Wait(now, &r.pass))
			r.pass.Aborted, r.aborted = append(r.pass.Aborted, r.aborted...), r.aborted[:0]
		}
		did = did || r.planner != nil && len(r.pass.Aborted)+r.pass.Tokens > 0
	}
	switch {
	case !begun && !did:
		return 0, 0, stalled
	case !begun:
		return 0, 0, nil
	}
	if c.Slowest {
		return all.slowest, delay, nil
	}
	ms, err = c.Clock.Step(&all.most)
	return ms, delay, err
}

// work is the work of a pass over all ranks.
type work struct {
	most    timing.Step // maximum of each quantity over the ranks
	slowest float64     // duration for the slowest rank, in ms
}

func (c *Core) add(all *work, step *timing.Step) error {
	if !c.Slowest {
		all.most.Widen(step)
		return nil
	}
	ms, err := c.Clock.Step(step)
	all.slowest = max(all.slowest, ms)
	return err
}

// isPlanned reports whether a rank has planned the next pass.
func (c *Core) isPlanned() bool {
	for i := range c.ranks {
		if p := c.ranks[i].planner; p != nil && p.Planned() {
			return true
		}
	}
	return false
}

// Cancel removes a request from its rank.
func (c *Core) Cancel(now sim.Time, id sim.RequestID, p *scheduler.Pass) bool {
	p.Reset(now)
	for i := range c.ranks {
		r := &c.ranks[i]
		if p.Detail != nil && r.pass.Detail == nil {
			r.pass.Detail = new(scheduler.Detail)
		}
		if r.Rank.Cancel(now, id, &r.pass) {
			c.join(p, &r.pass, int32(i))
			return true
		}
	}
	return false
}

// ReportIdle reports the remaining changes of the ranks' caches if no rank has a request.
func (c *Core) ReportIdle(p *scheduler.Pass) {
	if c.Load() > 0 {
		return
	}
	for i := range c.ranks {
		r := &c.ranks[i]
		r.pass.Events = r.pass.Events[:0]
		r.ReportIdle(&r.pass)
		for k := range r.pass.Events {
			c.joinEvent(p, r.pass.Events[k], int32(i))
		}
	}
}

// Progress yields the requests of all ranks that have gained a token but not their last.
func (c *Core) Progress(yield func(id sim.RequestID, tokens int, last sim.Time)) {
	for i := range c.ranks {
		c.ranks[i].Rank.Progress(yield)
	}
}

// Cut has nothing to release: every run is one pass.
func (c *Core) Cut(*scheduler.Pass, int) {}

// join adds the pass of a rank to the pass of the worker.
func (c *Core) join(p, part *scheduler.Pass, rank int32) {
	p.Decoding += part.Decoding
	p.Tokens += part.Tokens
	p.Verified += part.Verified
	p.Drafts += part.Drafts
	p.Accepted += part.Accepted
	p.Preempted += part.Preempted
	p.ToHost += part.ToHost
	p.FromHost += part.FromHost
	p.EventsLost += part.EventsLost
	p.PrefillTokens += part.PrefillTokens
	p.KVAtEnd = part.KVAtEnd
	p.Gaps = append(p.Gaps, part.Gaps...)
	p.Admitted = append(p.Admitted, part.Admitted...)
	p.Second = append(p.Second, part.Second...)
	p.Marks = append(p.Marks, part.Marks...)
	p.Aborted = append(p.Aborted, part.Aborted...)
	for i := range part.Events {
		c.joinEvent(p, part.Events[i], rank)
	}
	if p.Detail != nil {
		joinDetail(p.Detail, part.Detail)
	}
}

// joinEvent adds a change of a rank's cache. Removed blocks are reported only if no rank has them any more.
func (c *Core) joinEvent(p *scheduler.Pass, e scheduler.KVEvent, rank int32) {
	for _, b := range e.Stored {
		c.holders[b.Seq]++
	}
	left := e.Removed[:0:0]
	for _, seq := range e.Removed {
		if c.holders[seq]--; c.holders[seq] <= 0 {
			delete(c.holders, seq)
			left = append(left, seq)
		}
	}
	if len(e.Removed) > 0 && len(left) == 0 {
		return
	}
	e.Removed = left
	e.Rank = rank
	p.Events = append(p.Events, e)
}

// joinDetail adds the results of one rank for single requests, and its occupancy.
func joinDetail(d, part *scheduler.Detail) {
	d.PrefillEnd = max(d.PrefillEnd, part.PrefillEnd)
	d.Work = append(d.Work, part.Work...)
	d.Lost = append(d.Lost, part.Lost...)
	d.Resumed = append(d.Resumed, part.Resumed...)
	d.Running += part.Running
	d.Waiting += part.Waiting
	d.Blocks += part.Blocks
	d.Held += part.Held
	d.Cached += part.Cached
}

// SetClock sets the clock of later passes.
func (c *Core) SetClock(clock timing.Clock) {
	c.Clock = clock
	for i := range c.ranks {
		c.ranks[i].SetClock(clock)
	}
}
