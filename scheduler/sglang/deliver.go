package sglang

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// deliverPrompts ends a prefill: requests with a complete prompt gain a token, and their pages are cached.
func (c *Core) deliverPrompts(f *flight, p *scheduler.Pass) {
	for i := range f.batch {
		e := &f.batch[i]
		if e.isVoid() {
			continue
		}
		r := e.request
		if !e.whole {
			if c.outbox.handsOver() {
				c.outbox.sendUpTo(r, floorTo(e.before+e.tokens, c.PageTokens), p.End)
			}
			continue
		}
		r.out++
		m := p.AddToken(r.ID, r.out, r.asked(), r.lastToken, r.lastToken != p.Start)
		r.lastToken = p.End
		switch {
		case m != nil && m.Last && c.outbox.handsOver():
			m.Handoff = c.outbox.handOver(r, p.End)
		case m != nil && m.Last:
			m.Handoff = c.outbox.transferDelay(r.Request)
			c.batch.stopRunning(r)
			c.finishRequest(r)
		default:
			c.pages.cachePages(r)
		}
	}
}

// deliverTokens ends a decode pass.
func (c *Core) deliverTokens(f *flight, p *scheduler.Pass) {
	if c.Speculation != nil {
		c.drafts.deliverDrafts(f, p)
		return
	}
	c.batch.done++
	if len(f.batch) > 0 {
		c.batch.doneMixed++
	}
	p.Tokens += f.decodes - f.lost
	c.noteGaps(f, p)
	c.lastDecode = p.End
	if !c.Overlap || c.decoding.receivesKV() {
		c.batch.noteEnding(c.batch.done)
	}
	for _, r := range c.batch.ending {
		if r.Request == nil {
			continue // the request ended with its prompt
		}
		if c.decoding.receivesKV() {
			c.ended = append(c.ended, endedOne{r.InputTokens + r.asked(), c.decoding.longestOf(r)})
			c.loseFlight(r) // the request is part of the next planned pass
		}
		c.batch.stopRunning(r)
		r.out = r.asked()
		p.Marks = append(p.Marks, scheduler.Mark{Request: r.ID, Last: true, Tokens: r.out})
		c.finishRequest(r)
	}
}

// leaveLine removes ended requests from the running requests.
func (c *Core) leaveLine() {
	if len(c.batch.ending) > 0 {
		c.batch.ending = c.batch.ending[:0]
		c.batch.closeGaps()
		c.queue.full = false
	}
}

// noteGaps records the inter-token latencies of the pass, and the requests that gained their second token.
func (c *Core) noteGaps(f *flight, p *scheduler.Pass) {
	others := f.decodes - f.lost
	for _, v := range f.joined {
		if v.isVoid() {
			continue
		}
		others--
		if v.out == 1 {
			p.Second = append(p.Second, v.ID)
		}
		c.noteGap(v.request, p)
	}
	if c.lastDecode == p.Start {
		p.Decoding += others
		return
	}
	for range others {
		p.Gaps = append(p.Gaps, p.End-c.lastDecode)
	}
	if p.Detail == nil {
		return
	}
	for _, line := range [][]*request{c.batch.ending, c.batch.running} {
		for _, r := range line {
			if r != nil && r.Request != nil && !r.isIn(f.joined) && (r.ending && r.place == notRunning || !r.ending && r.base < c.batch.done) {
				p.Detail.Resumed = append(p.Detail.Resumed, r.ID)
			}
		}
	}
}

// noteGap records the inter-token latency of a request that decodes for the first time since it started to run.
func (c *Core) noteGap(r *request, p *scheduler.Pass) {
	if r.lastToken == p.Start {
		p.Decoding++
		return
	}
	p.Gaps = append(p.Gaps, p.End-r.lastToken)
	if p.Detail != nil {
		p.Detail.Resumed = append(p.Detail.Resumed, r.ID)
	}
}

// isIn reports whether all contains a valid visit of r.
func (r *request) isIn(all []visit) bool {
	return slices.ContainsFunc(all, func(v visit) bool { return v.request == r && !v.isVoid() })
}

// lastTokenOf returns the time of the latest token of a running request.
func (c *Core) lastTokenOf(r *request) (at sim.Time) {
	if c.batch.done > r.base {
		return c.lastDecode
	}
	return r.lastToken
}

// finishRequest caches the pages of r and removes r from the core. r has its last token and does not run.
func (c *Core) finishRequest(r *request) {
	c.pages.releasePages(r, true)
	c.queue.full = false
	c.forgetRequest(r)
}
