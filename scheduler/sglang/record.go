package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/prompt"
)

// recorder keeps the record of the cache that a router is shown.
type recorder interface {
	watcher
	begin(p *scheduler.Pass) // what happens from now on belongs to p
	evicted()                // an eviction is over
}

// startRecord chooses the recorder.
func (c *Core) startRecord() {
	switch c.Capture {
	case scheduler.CaptureNone:
		c.record = silent{}
		return
	case scheduler.CaptureEvents:
		c.record = newPageEvents(c.Tree)
	case scheduler.CaptureResidency:
		c.record = &residency{}
	}
	c.tree.watch = c.record
}

// silent records nothing.
type silent struct{}

func (silent) begin(*scheduler.Pass)     {}
func (silent) evicted()                  {}
func (silent) stored(*tree, int32)       {}
func (silent) split(*tree, int32, int32) {}
func (silent) removed(*tree, int32)      {}

// residency records how much of each prompt node is cached.
type residency struct {
	silent
	pass *scheduler.Pass
}

func (s *residency) begin(p *scheduler.Pass) { s.pass = p }

func (s *residency) stored(t *tree, n int32) {
	x := t.at(n)
	for at := x.from; at < x.promptEnd(); {
		i := at / t.perNode
		at = min(x.promptEnd(), (i+1)*t.perNode)
		s.recordChange(x.seq.nodes[i], at-i*t.perNode)
	}
}

func (s *residency) removed(t *tree, n int32) {
	x := t.at(n)
	for at := x.promptEnd(); at > x.from; {
		i := (at - 1) / t.perNode
		at = max(x.from, i*t.perNode)
		s.recordChange(x.seq.nodes[i], at-i*t.perNode)
	}
}

func (s *residency) recordChange(n prompt.NodeID, blocks int32) {
	s.pass.KV = append(s.pass.KV, scheduler.KVChange{Node: n, Blocks: blocks})
}

// promptEnd returns the end of the node's pages that are pages of prompt nodes.
func (n *node) promptEnd() int32 {
	if n.seq.seed > 0 {
		return n.from
	}
	return max(n.from, min(n.to, n.seq.full))
}
