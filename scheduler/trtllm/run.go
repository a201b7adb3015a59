package trtllm

import (
	"math"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// countAlike returns the maximum number of passes from now on in which every active request only gains one token. In
// uneventful passes no request allocates a block, retires, ends or arrives.
func (c *Core) countAlike() int {
	n := len(c.active)
	if n == 0 || n > c.MaxTokens || n < c.MaxBatch && c.line.Len() > 0 || c.gate != nil || len(c.pool.retention.expiring) > 0 || c.onFetch != nil {
		return 0
	}
	if c.next.planned != c.Overlap || len(c.next.ctx) > 0 || c.Overlap && len(c.next.gen) != n {
		return 0
	}
	if len(c.sending) > 0 && !c.KeepSent {
		return 0
	}
	most := math.MaxInt
	for _, r := range c.active {
		if most = min(most, c.countCalm(r)); most == 0 {
			return 0
		}
	}
	return most
}

// countCalm returns how many passes from now on r only gains one token in each.
func (c *Core) countCalm(r *request) int {
	filled := r.slots % c.BlockTokens
	if r.state != generating || r.given() == 0 || r.pass != c.passes-1 || filled == 0 {
		return 0
	}
	left := min(r.limit, r.OutputTokens) - r.given() - 1
	if c.Overlap {
		left = min(left, r.left-(r.known-r.prompt)-2)
	}
	return max(0, min(left, c.BlockTokens-filled))
}

// takeRun runs up to n passes that countAlike has counted. Except for the first, no pass starts at until or later.
func (c *Core) takeRun(n int, now, until sim.Time, p *scheduler.Pass) error {
	c.openPass(now, p)
	c.measureRun()
	run := timing.Run{Until: until, Most: n, End: now, Ends: p.Ends, Nanos: p.Nanos}
	if err := c.Clock.Repeat(&c.step, &run); err != nil {
		return err
	}
	p.Count, p.End, p.Ends, p.Nanos = len(run.Ends), run.End, run.Ends, run.Nanos
	p.Tokens, p.Decoding = len(c.active), len(c.active)
	for _, r := range c.active {
		if r.given() == 1 {
			p.Second = append(p.Second, r.ID)
		}
	}
	c.short = 0
	c.advanceRun(p.Count, p.End)
	p.CutEnds(p.Count)
	c.endPass(p)
	return nil
}

// measureRun computes the work of the first pass of a run.
func (c *Core) measureRun() {
	n, sum := len(c.active), 0
	for _, r := range c.active {
		sum += r.slots + 1
	}
	if c.Overlap {
		sum -= n // the slots of the pass are allocated already
	}
	c.step = timing.Step{
		Active: c.countHeld(), Capacity: c.pool.total * c.BlockTokens,
		Requests: n, Tokens: n, Decodes: n, Readers: n, DecodeLength: sum, Context: int64(sum),
	}
}

// advanceRun adds n tokens to every active request, or removes them if n is negative. The last token came at the
// given instant.
func (c *Core) advanceRun(n int, at sim.Time) {
	c.passes += int64(n)
	for _, r := range c.active {
		r.known += n
		r.slots += n
		r.pass, r.lastAt = c.passes-1, at
	}
	for i := range c.next.gen {
		c.next.gen[i].before += n
	}
}

// Cut releases the passes of the run p after the first keep.
func (c *Core) Cut(p *scheduler.Pass, keep int) {
	if back := p.Count - keep; back > 0 {
		p.CutEnds(keep)
		c.advanceRun(-back, p.End)
	}
}
