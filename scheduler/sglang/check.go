package sglang

import (
	"fmt"

	"github.com/replay-llm/replay/internal/invariant"
)

// check calls checkAccounts if invariants are enabled.
func (c *Core) check() {
	if invariant.Enabled {
		c.checkAccounts()
	}
}

// checkAccounts panics if the counters of the core do not agree.
func (c *Core) checkAccounts() {
	c.checkTotals()
	c.pages.tree.Check()
	c.checkPool()
}

// checkTotals compares the totals with the running requests.
func (c *Core) checkTotals() {
	length, phase := 0, make([]int32, c.PageTokens)
	for i, r := range c.batch.running {
		if r.place != i {
			panic(fmt.Sprintf("running: request %d is in place %d and believes to be in %d", r.ID, i, r.place))
		}
		length += c.batch.lengthOf(r)
		phase[c.batch.phaseOf(r)]++
	}
	if c.Speculation != nil {
		return
	}
	if length != c.batch.totals.length {
		panic(fmt.Sprintf("running: %d tokens, must be %d", c.batch.totals.length, length))
	}
	for i := range phase {
		if phase[i] != c.batch.totals.phase[i] {
			panic(fmt.Sprintf("running: %d requests in phase %d, must be %d", c.batch.totals.phase[i], i, phase[i]))
		}
	}
}

// checkPool compares the free tokens of the pools with the tokens that requests and the tree hold.
func (c *Core) checkPool() {
	own, windowed := 0, 0
	hold := func(r *request, tokens int) {
		own += c.pages.poolTokens(tokens) - r.prot
		windowed += c.win.ownWindow(r, tokens)
	}
	for _, r := range c.batch.running {
		hold(r, max(c.batch.lengthOf(r), r.alloc))
	}
	for _, r := range c.batch.ending {
		if r.place == notRunning {
			hold(r, max(r.stored, r.alloc))
		}
	}
	if c.partial != nil {
		hold(c.partial, c.partial.stored)
	}
	for _, v := range c.merging {
		if !v.isVoid() && v.request != c.partial {
			hold(v.request, v.stored)
		}
	}
	for _, r := range c.arrived {
		own += c.pages.poolTokens(r.stored)
	}
	for _, s := range c.outbox.inFlight {
		own += c.pages.poolTokens(s.stored) - s.prot
	}
	if cached := c.pages.tree.Pages * c.PageTokens; c.pages.free+cached+own != c.pages.pool || c.pages.free < 0 {
		panic(fmt.Sprintf("token pool: %d free + %d cached + %d held != %d total", c.pages.free, cached, own, c.pages.pool))
	}
	if c.Window == 0 {
		return
	}
	if cached := c.win.tree.Live() * c.PageTokens; c.win.free+cached+windowed != c.win.pool || c.win.free < 0 {
		panic(fmt.Sprintf("token pool of windows: %d free + %d cached + %d held != %d total", c.win.free, cached, windowed, c.win.pool))
	}
}
