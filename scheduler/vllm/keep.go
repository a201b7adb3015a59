package vllm

import (
	"slices"

	"github.com/replay-llm/replay/sim"
)

// keepBlocks removes a request with its last token like finishRequest, but keeps its KV blocks. The kept blocks are
// the KV cache for a decode worker, and are kept until Release.
func (c *Core) keepBlocks(s slot) {
	c.requests[s].state = gone
	c.kept = append(c.kept, s)
	c.live--
	if c.cfg.Pull {
		c.conn.keepSent(&c.requests[s])
	}
}

// Release releases the KV blocks of a prompt that was sent, or that will not be sent.
func (c *Core) Release(id sim.RequestID) bool {
	i := slices.IndexFunc(c.kept, func(s slot) bool { return c.requests[s].id == id })
	if i < 0 {
		return false
	}
	s := c.kept[i]
	c.kept = slices.Delete(c.kept, i, i+1)
	c.freeRequest(s)
	c.checkAccounts()
	return true
}

// freeRequest releases the blocks and the slot of a request that has left.
func (c *Core) freeRequest(s slot) {
	c.pool.Release(s)
	c.stuck = false
	if c.cfg.Speculation != nil {
		c.drafts.parting = append(c.drafts.parting, s)
	} else {
		c.unused = append(c.unused, s)
	}
	c.pool.Forget(s)
}
