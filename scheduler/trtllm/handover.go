package trtllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// A prefill worker keeps the KV blocks of a prompt until its transfer ends. The request leaves the active requests
// with its first token. A decode worker allocates the blocks of transferred prompts before it admits other requests.
// The worker delivers the first token before the first pass of the request; ranks in lockstep deliver it at the end
// of the running pass.

// sent is a request that has left while its KV blocks are kept.
type sent struct {
	*request
	until sim.Time // end of the transfer, if Release is not used
}

// handOver removes r, which has its last token, from a prefill worker at an instant.
func (c *Core) handOver(r *request, at sim.Time) {
	until := at + c.Transfer.Delay(r.InputTokens)
	if !c.KeepSent && (until <= at || c.gate != nil) {
		c.pool.close(r)
		c.forget(r)
		return
	}
	if c.Reuse {
		c.pool.store(r, r.known-1, true)
	}
	c.sending = append(c.sending, sent{r, until})
	c.live--
}

// releaseSent releases the blocks of transfers that have ended by now.
func (c *Core) releaseSent(now sim.Time) {
	if len(c.sending) == 0 || c.KeepSent {
		return
	}
	c.sending = slices.DeleteFunc(c.sending, func(s sent) bool {
		if s.until > now {
			return false
		}
		c.freeSent(s.request)
		return true
	})
}

func (c *Core) freeSent(r *request) {
	c.pool.close(r)
	c.recycle(r)
}

// Release releases the blocks of a prompt that was sent, or that will not be sent.
func (c *Core) Release(id sim.RequestID) bool {
	i := slices.IndexFunc(c.sending, func(s sent) bool { return s.ID == id })
	if i < 0 {
		return false
	}
	r := c.sending[i].request
	c.sending = slices.Delete(c.sending, i, i+1)
	c.freeSent(r)
	return true
}

// waitForSent makes p a pass that waits for the first transfer to end, if no other work can be done.
func (c *Core) waitForSent(p *scheduler.Pass) {
	if c.KeepSent {
		p.Blocked = true
		return
	}
	at := c.sending[0].until
	for _, s := range c.sending {
		at = min(at, s.until)
	}
	p.End = max(p.Start, at)
	p.Gap = p.End - p.Start
	c.pool.now = p.End
	c.releaseSent(p.End)
	c.endPass(p)
}

// admitArrived allocates blocks for prompts that were sent to this decode worker, in order, while there are enough.
// admitArrived gives these requests their first tokens.
func (c *Core) admitArrived(p *scheduler.Pass) {
	if c.Role != scheduler.Decode {
		return
	}
	avail, ended := c.countAvailable(), false
	for _, r := range c.active {
		if !r.arrived {
			continue
		}
		need := c.countArrived(r)
		if need > avail {
			break
		}
		if c.hasBlocks() {
			avail -= need
		}
		c.pool.allocate(r)
		r.arrived, r.pos, r.found, r.chunk = false, r.prompt, r.prompt, 0
		r.state = generating
		p.Admitted = append(p.Admitted, scheduler.Admission{Request: r.ID})
		r.known++
		p.AddToken(r.ID, 1, r.OutputTokens, 0, false)
		if r.pass = c.passes; !c.running {
			r.pass-- // the token is delivered before the planned pass
		}
		c.firsts = append(c.firsts, r)
		if r.OutputTokens == 1 || r.limit == 1 {
			r.state, ended = done, true
		}
	}
	if ended {
		c.closeEnded(p.Start)
	}
}

// countAvailable returns the number of blocks available to prompts that were sent.
func (c *Core) countAvailable() int {
	if !c.hasBlocks() {
		return 0
	}
	avail := c.pool.free
	for _, r := range c.active {
		switch {
		case r.state == inContext && r.isFirstChunk():
		case c.Policy == Static:
			return 0
		case c.Policy == MaxUtil:
			avail -= c.countNext(r)
		default:
			avail -= c.countRemaining(r)
		}
	}
	return avail
}

// countArrived returns the number of blocks that a prompt that was sent needs for admission.
func (c *Core) countArrived(r *request) int {
	switch tokens := r.prompt + r.left; {
	case !c.hasBlocks():
		return 0
	case c.Policy == MaxUtil:
		return countBlocks(r.prompt, c.BlockTokens)
	case c.MaxLength > 0:
		return countBlocks(min(tokens, c.MaxLength), c.BlockTokens)
	default:
		return countBlocks(tokens, c.BlockTokens)
	}
}

// Room returns the number of blocks that are neither held nor reserved, minus the blocks that waiting requests need.
func (c *Core) Room() int {
	room := c.countAvailable()
	for _, r := range c.active {
		if r.state == inContext && r.isFirstChunk() {
			room -= c.countArrived(r)
		}
	}
	for _, r := range c.line.All() {
		room -= c.countArrived(r)
	}
	return room
}
