package reference

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
)

// startRunning appends r to the running requests.
func (c *Core) startRunning(r *request) {
	r.base, r.joined = c.step, c.step
	r.growing, r.gone = false, false
	r.place = len(c.running)
	c.running = append(c.running, r)
	c.joined = append(c.joined, r)
	t := &c.totals
	t.length += r.stored
	t.slack += c.slackOf(r.stored)
	t.phase[c.phaseOf(r)]++
	left := max(1, r.maxOut) - r.out
	next := c.step + int64(left)
	r.clipped = left > c.ClipNewTokens
	if r.clipped {
		t.clipped++
		if c.ClipNewTokens > 0 {
			next -= int64(c.ClipNewTokens)
		}
	}
	t.reserve += min(left, c.ClipNewTokens)
	r.epoch++
	c.agenda.Push(next, r.epoch, r)
}

// subtractTotals subtracts r from the totals; the caller removes r from the running requests. writeGains must be
// called for r before.
func (c *Core) subtractTotals(r *request) {
	t := &c.totals
	t.length -= r.stored
	t.slack -= c.slackOf(r.stored)
	t.phase[c.phaseOf(r)]--
	if r.clipped {
		t.clipped--
		t.reserve -= c.ClipNewTokens
	} else {
		t.reserve -= max(1, r.maxOut) - r.out
	}
	r.gone = true
	r.epoch++
}

// slackOf returns the number of free tokens in the last page of n tokens, which the pool still counts as free.
func (c *Core) slackOf(n int) int {
	return ceilTo(n, c.PageTokens) - n
}

// phaseOf returns the index of r in totals.phase, which is constant while r runs.
func (c *Core) phaseOf(r *request) int {
	n := int64(c.PageTokens)
	return int(((r.base-int64(r.stored))%n + n) % n)
}

// countCrossing returns the number of running requests with a next token that needs a page.
func (c *Core) countCrossing() int {
	return int(c.totals.phase[c.step%int64(c.PageTokens)])
}

// decodeTime returns the duration of the decode step in ms, for all requests that run before retractions.
func (c *Core) decodeTime() (float64, error) {
	n := len(c.running)
	if n == 0 {
		return 0, nil
	}
	length := c.totals.length
	return c.Clock.Decode(n, min(length, c.pool), length/n, c.pool)
}

// decodeTokens gives each running request a token if there is room for all of them. The room can be insufficient only
// for a single remaining request.
func (c *Core) decodeTokens(p *scheduler.Pass) {
	n := len(c.running)
	if n == 0 {
		c.fresh = c.fresh[:0]
		return
	}
	crossing := c.countCrossing()
	if n > c.free {
		c.starved = true
		return
	}
	c.free -= n
	c.step++
	t := &c.totals
	t.length += n
	t.reserve -= n - t.clipped
	t.slack += crossing*c.PageTokens - n
	p.Tokens = n
	c.recordGaps(p)
	c.collectDue()
	c.signalDue(p)
	c.starved = false
	c.lastEnd = p.End
}

// recordGaps records the inter-token latencies of the pass and the requests that gained their second token.
func (c *Core) recordGaps(p *scheduler.Pass) {
	p.Decoding = len(c.running) - len(c.joined)
	if c.starved {
		for range p.Decoding {
			p.Gaps = append(p.Gaps, p.End-c.lastEnd)
		}
		p.Decoding = 0
		c.recordStarved(p.Detail)
	}
	for _, r := range c.fresh {
		p.Second = append(p.Second, r.ID)
	}
	c.fresh = c.fresh[:0]
	for _, r := range c.joined {
		if r.out > 0 {
			p.Gaps = append(p.Gaps, p.End-r.lastToken)
			if p.Detail != nil {
				p.Detail.Resumed = append(p.Detail.Resumed, r.ID)
			}
		}
		if r.out == 1 {
			p.Second = append(p.Second, r.ID)
		}
	}
}

// recordStarved records the running requests that did not start in this pass. The recorded requests gained no token
// in the previous pass.
func (c *Core) recordStarved(d *scheduler.Detail) {
	if d == nil {
		return
	}
	for _, r := range c.running {
		if !slices.Contains(c.joined, r) {
			d.Resumed = append(d.Resumed, r.ID)
		}
	}
}

// collectDue collects the requests with their first token since they started, or with their last token, in the order
// of running requests.
func (c *Core) collectDue() {
	c.due = c.due[:0]
	for len(c.agenda) > 0 && c.agenda[0].Key <= c.step {
		e := c.agenda.Pop()
		r := e.Value
		if e.Tie != r.epoch {
			continue
		}
		if left := max(1, r.maxOut) - r.out - c.tokensSince(r); left > 0 {
			r.clipped = false
			c.totals.clipped--
			c.agenda.Push(c.step+int64(left), r.epoch, r)
			continue
		}
		if r.joined < c.step-1 {
			c.due = append(c.due, r)
		}
	}
	c.due = append(c.due, c.joined...)
	c.joined = c.joined[:0]
	if len(c.due) > 1 {
		slices.SortFunc(c.due, func(a, b *request) int { return cmp.Compare(a.place, b.place) })
	}
}

// signalDue records the marks of the requests in due, in order, and releases finished requests.
func (c *Core) signalDue(p *scheduler.Pass) {
	recorded, finished := 0, 0
	for _, r := range c.due {
		if c.tokenwise {
			recorded = c.recordTokens(recorded, r.place+1)
		}
		c.tree.Clock = walkTick(c.step, r.place)
		c.writeGains(r)
		mark := scheduler.Mark{Request: r.ID, First: r.out == 1, Last: r.out >= r.maxOut, Tokens: r.out}
		switch {
		case mark.Last:
			if c.Role == scheduler.Prefill {
				mark.Handoff = c.Transfer.Delay(r.InputTokens)
			}
			c.finishRequest(r)
			c.due[finished] = r
			finished++
		case mark.First:
			c.fresh = append(c.fresh, r)
		}
		if mark.First || mark.Last {
			p.Marks = append(p.Marks, mark)
		}
		if !mark.Last {
			c.startGrowing(r)
		}
	}
	if c.tokenwise {
		c.recordTokens(recorded, len(c.running))
	}
	c.tree.Clock = walkTick(c.step, maxPlaces)
	c.removeFinished(c.due[:finished])
}

// recordTokens records the tokens of the running requests with index from to to-1, and returns the next index.
func (c *Core) recordTokens(from, to int) int {
	for ; from < to; from++ {
		c.record.generated(c.running[from], c.lengthOf(c.running[from]))
	}
	return from
}

// Limits of the fields of walkTick, which have 63 bits together.
const (
	maxSteps  = 1<<31 - 1 // decode steps
	maxPlaces = 1 << 28   // running requests
)

// walkTick returns the tick before the walks of the request at index place in a decode step. The walks of a request
// in a step are later than all walks of earlier steps and places. A request makes fewer than eight walks in a step.
func walkTick(step int64, place int) int64 { return step<<32 | int64(place)<<3 }

// lastWalkTick returns the tick of the last walk over the tree by a request that caches each page when it is full.
func (c *Core) lastWalkTick(r *request) int64 {
	filled := c.step - int64(c.lengthOf(r)%c.PageTokens)
	if filled > r.stampedAt {
		return walkTick(filled, r.place) + 7
	}
	return r.stamped
}

// startGrowing caches the pages of r at its first token since it started to run. Later pages of r are cached one by
// one.
func (c *Core) startGrowing(r *request) {
	r.stamped, r.stampedAt = 0, c.step
	c.cachePages(r)
	r.growing = true
}

// graftGrown adds the pages to the tree that a growing request has cached, up to the given number of tokens.
func (c *Core) graftGrown(r *request, tokens int) {
	k := floorTo(tokens, c.PageTokens)
	if !r.growing {
		return
	}
	if k > r.prot {
		r.node = c.tree.Graft(r.node, &r.seq, c.pagesOf(r.prot), c.pagesOf(k))
		r.prot, r.cached = k, k
	}
	r.growing = false
}

// finishRequest caches all pages of r and releases its memory. writeGains must be called for r before.
func (c *Core) finishRequest(r *request) {
	c.subtractTotals(r)
	k := floorTo(r.stored, c.PageTokens)
	c.graftGrown(r, r.stored-1)
	c.free += r.stored - k
	c.record.released(r, k)
	c.tree.Insert(&r.seq, c.pagesOf(k))
	c.tree.Unlock(r.node)
	c.record.forgotten(r)
}

// removeFinished removes finished requests, given in order, from the running requests.
func (c *Core) removeFinished(finished []*request) {
	for i := len(finished) - 1; i >= 0; i-- {
		c.fillPlace(finished[i].place)
	}
	for _, r := range finished {
		r.place = notRunning
		r.Request = nil
		c.spare = append(c.spare, r)
	}
}

// fillPlace moves the last running request to an index that became empty.
func (c *Core) fillPlace(place int) {
	last := len(c.running) - 1
	moved := c.running[last]
	c.running[last] = nil
	c.running = c.running[:last]
	if place < last {
		c.running[place] = moved
		c.moveTo(moved, place)
	}
}

// moveTo changes the index of a running request.
func (c *Core) moveTo(r *request, place int) {
	if r.growing {
		r.stamped, r.stampedAt = c.lastWalkTick(r), c.step
	}
	r.place = place
}

// SetClock sets the clock of later passes.
func (c *Core) SetClock(clock timing.Clock) { c.Clock = clock }
