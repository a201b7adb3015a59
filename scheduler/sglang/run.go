package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// counts is the state that decode-only passes change.
type counts struct {
	ratio         float64
	free, window  int
	length        int
	counted       int
	planned, done int64
	deferred      int
}

// countAlike returns the maximum number of uneventful passes from now on. In an uneventful pass, every running
// request only gains one token.
func (c *Core) countAlike(now sim.Time) int {
	n := len(c.batch.running)
	if len(c.retracted)+len(c.arrived) > 0 || c.decoding.receivesKV() && c.queue.waiting.Len() > 0 {
		return 0
	}
	tried := !c.queue.full || c.Window > 0 || c.Priorities.Preempt // each pass tries again to admit waiting requests
	if n == 0 || c.Speculation != nil || tried && c.queue.waiting.Len() > 0 || c.partial != nil || c.Planner || now != c.lastDecode {
		return 0
	}
	if len(c.merging) > 0 || len(c.batch.joined) > 0 || len(c.batch.agenda) == 0 || c.tiers.waitsForPass() || c.tiers.isStoring() {
		return 0
	}
	last := c.batch.agenda[0].Key - 1 // the pass before the first last token
	if f := c.next; c.Overlap {
		if !f.planned || len(f.batch) > 0 || len(f.joined) > 0 || f.lost > 0 || f.decodes != n {
			return 0
		}
		last++ // a run with Overlap is planned one pass earlier
	}
	// Within PageTokens passes, each request needs one new page, and eviction makes room for one more page per
	// request.
	room := (c.pages.freeTokens()/(n*c.PageTokens) - 1) * c.PageTokens
	if c.record.waits() { // stop before a pass that publishes
		room = min(room, c.LogInterval-1-c.decodesUnlogged())
	}
	if len(c.win.due) > 0 {
		last = min(last, c.win.due[0].Key)
	}
	return int(min(last-c.batch.planned, int64(room)))
}

// takeRun runs up to n uneventful passes and plans as many. Except for the first, no pass starts at until or later.
func (c *Core) takeRun(n int, now, until sim.Time, p *scheduler.Pass) error {
	p.Reset(now)
	p.KVAtEnd = true
	c.ended, c.looked = c.ended[:0], false
	c.before = counts{c.ratio.now, c.pages.free, c.win.free, c.batch.totals.length, c.queue.counted.sum, c.batch.planned, c.batch.done, c.queue.deferred}
	if !c.Overlap {
		c.next.decodes, c.next.length = len(c.batch.running), c.batch.totals.length+len(c.batch.running)
	}
	c.measurePass()
	run := timing.Run{Until: until, Most: n, End: now, Ends: p.Ends, Nanos: p.Nanos}
	if err := c.Clock.Repeat(&c.step, &run); err != nil {
		return err
	}
	p.End, p.Ends, p.Nanos = run.End, run.Ends, run.Nanos
	p.Tokens, p.Decoding = len(c.batch.running), len(c.batch.running)
	c.keepRun(p, len(run.Ends))
	c.describeState(p)
	c.check()
	return nil
}

// Cut releases the passes of the run p after the first keep.
func (c *Core) Cut(p *scheduler.Pass, keep int) {
	if keep < p.Count {
		c.keepRun(p, keep)
	}
}

// keepRun runs the first keep passes of the run p, starting from the state in before.
func (c *Core) keepRun(p *scheduler.Pass, keep int) {
	b, n := &c.before, len(c.batch.running)
	c.ratio.now, c.pages.free, c.win.free, c.batch.planned = b.ratio, b.free, b.window, b.planned
	for i := 0; i < keep && c.ratio.now > c.ratio.least; i++ {
		c.ratio.decay()
	}
	opened := keep / c.PageTokens * n // each request needs one new page in PageTokens passes
	for range keep % c.PageTokens {
		opened += c.batch.countCrossing()
		c.batch.planned++
	}
	c.pages.takeTokens(opened * c.PageTokens)
	c.batch.planned = b.planned + int64(keep)
	c.batch.totals.length, c.batch.done = b.length+keep*n, b.done+int64(keep)
	c.queue.counted.sum = b.counted + keep*c.queue.counted.batch
	if c.next.clear(); c.Overlap {
		c.next.planned, c.next.decodes, c.next.length = true, n, c.batch.totals.length
	}
	if c.queue.deferred = max(0, b.deferred-keep); n < c.IntervalSeats {
		c.queue.deferred = 0
	}
	p.CutEnds(keep)
	c.lastEnd, c.lastDecode = p.End, p.End
}
