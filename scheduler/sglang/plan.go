package sglang

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
)

// planPass plans a pass, by what is known now: prompts come first, and tokens where none
// can be computed.
func (c *Core) planPass(f *flight, p *scheduler.Pass) {
	if c.takesIn() {
		c.ended, c.looked = c.ended[:0], false
		f.planned = c.planTokens(f, p)
		return
	}
	if c.tiers != nil {
		c.askStorage(p.Start)
		c.tiers.noteDone(p.Start, f != c.next)
	}
	if c.partial != nil && !c.parked {
		c.cachePages(c.partial)
		c.parked = true
	}
	c.mergePrompts()
	c.noteEnding(c.planned)
	defer func() { c.counted.held = len(c.running) > 0 }()
	if c.defersPrompts() || !c.planPrompts(f, p) {
		f.planned = c.planTokens(f, p)
		return
	}
	f.planned = true
	c.deferred = c.DecodeInterval
	for i := range f.batch {
		c.merging = append(c.merging, f.batch[i].visit)
	}
	if c.MixedChunk {
		c.stopEnding()
		if len(c.running) > 0 && !c.isShort() {
			c.addTokens(f)
			c.counted.last += len(c.running)
			c.mixed = true
		}
	}
	c.counted.sum += c.counted.last
}

// mergePrompts lets the requests run whose prompts the latest pass completes. Who leaves
// it otherwise makes room. Those who decoded in it stand behind them.
func (c *Core) mergePrompts() {
	ahead := len(c.running)
	if c.handsOver() { // nobody runs
		c.full = false
		c.merging = c.merging[:0]
		return
	}
	if c.mixed {
		c.full = false
		c.counted.batch = c.counted.last
		defer func() { c.mixed = false; c.moveBehind(ahead) }()
	}
	for _, v := range c.merging {
		if v.isVoid() || v.request == c.partial {
			c.full = false
		}
	}
	for _, v := range c.merging {
		if v.isVoid() || v.request == c.partial {
			continue
		}
		if len(c.running) == 0 {
			c.full = false
		}
		if !c.counted.held {
			c.counted.batch, c.counted.held = c.counted.last, true
		}
		c.startRunning(v.request)
	}
	c.merging = c.merging[:0]
}

// noteEnding finds the requests whose last token comes with one of the first passes decode passes. They keep their places
// until tokens are planned without them, or that pass has ended.
func (c *Core) noteEnding(passes int64) {
	if c.Speculation != nil {
		c.noteDraftsEnding()
		return
	}
	from := len(c.ending)
	for len(c.agenda) > 0 && c.agenda[0].Key <= passes {
		e := c.agenda.Pop()
		if r := e.Value; e.Tie == r.epoch {
			r.ending = true
			c.ending = append(c.ending, r)
		}
	}
	c.sortEnding(from)
}

// planTokens plans a token for each running request and reports whether there is anything
// to do. It takes out those whose last token is in flight, and retracts where memory is short.
func (c *Core) planTokens(f *flight, p *scheduler.Pass) bool {
	c.stopEnding()
	if len(c.running) == 0 {
		c.full = false
		return false
	}
	switch {
	case !c.isShort():
		c.ratio.decay()
	case len(c.ending) > 0:
		c.full = false // what they hold is about to be free
		return false
	default:
		c.retractVictims(p)
		if len(c.running) == 0 {
			return false
		}
	}
	c.counted.sum += c.counted.batch
	c.addTokens(f)
	return true
}

// stopEnding takes those out of the line whose last token is in flight.
func (c *Core) stopEnding() {
	if len(c.ending) == 0 {
		return
	}
	for _, r := range c.ending {
		c.stopRunning(r)
	}
	c.closeGaps()
	c.full = false
}

// addTokens adds a token for each running request to the pass, for which there is room.
func (c *Core) addTokens(f *flight) {
	if c.Speculation != nil {
		c.addDrafts(f)
		return
	}
	n := len(c.running)
	if c.Window > 0 {
		c.slideDecoding()
	}
	if c.PageTokens > 1 {
		c.evictTokens(n * c.PageTokens)
	}
	c.takeTokens(c.countCrossing() * c.PageTokens)
	c.planned++
	c.totals.length += n
	f.decodes, f.length = n, c.totals.length
	f.joined, c.joined = append(f.joined[:0], c.joined...), c.joined[:0]
}

// startRunning puts r into the line of running requests.
func (c *Core) startRunning(r *request) {
	r.base, r.place = c.planned, len(c.running)
	c.running = append(c.running, r)
	if c.Speculation != nil {
		r.sampled = r.stored - r.InputTokens + 1 // with the token of the prefill, which may be in flight
		return
	}
	c.joined = append(c.joined, visit{r, r.epoch})
	c.totals.length += r.stored
	c.totals.phase[c.phaseOf(r)]++
	gained := r.stored - r.InputTokens + 1 // with the token of the prefill, which may be in flight
	c.agenda.Push(c.planned+int64(r.asked()-gained), r.epoch, r)
	if c.Window > 0 {
		c.awaitSlide(r, c.planned+1)
	}
}

// stopRunning takes r out of the sums over running requests; the caller takes it out of
// the line.
func (c *Core) stopRunning(r *request) {
	if r.place == notRunning {
		return
	}
	if c.Speculation == nil {
		c.writeGains(r)
		c.totals.length -= r.stored
		c.totals.phase[c.phaseOf(r)]--
	}
	c.running[r.place] = nil
	r.place = notRunning
}

// moveBehind moves the first n running requests behind the others.
func (c *Core) moveBehind(n int) {
	slices.Reverse(c.running[:n])
	slices.Reverse(c.running[n:])
	slices.Reverse(c.running)
	for i, r := range c.running {
		r.place = i
	}
}

// closeGaps closes the gaps that requests left in the line.
func (c *Core) closeGaps() {
	kept := 0
	for _, r := range c.running {
		if r != nil {
			r.place = kept
			c.running[kept] = r
			kept++
		}
	}
	clear(c.running[kept:])
	c.running = c.running[:kept]
}

// writeGains adds to r, which runs, what it has got since base.
func (c *Core) writeGains(r *request) {
	r.out, r.lastToken = c.gainedBy(r), c.lastTokenOf(r)
	r.stored = c.lengthOf(r)
	r.base = c.planned
}

// lengthOf returns the tokens that a running request holds, with those in flight.
func (c *Core) lengthOf(r *request) int { return r.stored + int(c.planned-r.base) }

// gainedBy returns the tokens that a running request has gained, without those in flight.
func (c *Core) gainedBy(r *request) int { return r.out + int(max(0, c.done-r.base)) }

// phaseOf returns the place of r in totals.phase, which it keeps while it runs.
func (c *Core) phaseOf(r *request) int {
	n := int64(c.PageTokens)
	return int(((r.base-int64(r.stored))%n + n) % n)
}

// countCrossing returns the number of running requests whose next token needs a page.
func (c *Core) countCrossing() int {
	return int(c.totals.phase[c.planned%int64(c.PageTokens)])
}
