package vllm

import (
	"slices"

	"github.com/replay-llm/replay/sim"
)

// keepBlocks lets a request that has its last token leave as finishRequest does, except its KV
// blocks: they are the KV cache that a decode worker is to have, and stay until Release.
func (c *Core) keepBlocks(s slot) {
	c.requests[s].state = gone
	c.kept = append(c.kept, s)
	c.live--
	if c.cfg.Pull {
		c.conn.keepSent(&c.requests[s])
	}
}

// Release releases the KV blocks of a prompt that has been sent, or will not be.
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

// freeRequest releases what a request has held that is gone.
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
