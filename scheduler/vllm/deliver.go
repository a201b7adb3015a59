package vllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
)

// deliverTokens ends pass f: its tokens become known, and complete requests leave.
func (c *Core) deliverTokens(f *flight, p *scheduler.Pass) {
	c.deliverSteady(f, p)
	ended := false
	for i := range f.shares {
		x := &f.shares[i]
		switch {
		case !x.samples || x.dropped:
		case c.cfg.Speculation != nil:
			ended = c.drafts.giveDrafts(x, p) || ended
		default:
			ended = c.giveToken(x.slot, p) || ended
		}
	}
	if !ended {
		return
	}
	isGone := func(s slot) bool { return c.requests[s].state == gone }
	c.running = slices.DeleteFunc(c.running, isGone)
	c.calm.lively = slices.DeleteFunc(c.calm.lively, isGone)
}

// giveToken gives s one token and reports whether it was the last.
func (c *Core) giveToken(s slot, p *scheduler.Pass) (last bool) {
	r := &c.requests[s]
	r.given++
	m := p.AddToken(r.id, r.given, r.end-r.input, r.lastAt, r.pass != c.passes-1)
	r.pass, r.lastAt = c.passes, p.End
	if m == nil || !m.Last {
		return false
	}
	if c.rules.NameAtEnd && r.state == running && c.drafts.namesAtEnd() {
		c.nameBlocks(r, c.knownTokens(r)-1)
	}
	if c.cfg.Role == scheduler.Prefill {
		m.Handoff = c.cfg.Transfer.Delay(r.input)
		if c.cfg.Push {
			c.conn.written = append(c.conn.written, scheduler.Pull{Request: r.id, Begins: unknown})
		}
	}
	switch {
	case c.cfg.KeepSent && r.blocks > 0:
		c.keepBlocks(s)
	case c.apart.waits && r.blocks > 0 && r.state == running:
		c.keepBlocks(s)
		c.apart.leaving = append(c.apart.leaving, s)
	default:
		c.finishRequest(s)
	}
	return true
}

// finishRequest releases a request; the caller removes it from the running requests. A request with all its tokens
// may have been preempted while its last token was in flight.
func (c *Core) finishRequest(s slot) {
	r := &c.requests[s]
	if r.state == preempted || r.state == waiting {
		c.waiting.Remove(s)
	}
	c.freeRequest(s)
	r.state = gone
	c.live--
}
