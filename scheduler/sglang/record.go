package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/prompt"
)

// recorder keeps the record of the cache that a router is shown.
type recorder interface {
	watcher
	begin(p *scheduler.Pass)                 // what happens from now on belongs to p
	evicted()                                // an eviction is over
	prefilled(r *request, before, after int) // r's tokens from before to after got places
	generated(r *request, length int)        // r got its last token, of length
	released(r *request, kept int)           // r gives its places after kept back
	forgotten(r *request)                    // r holds nothing any more
}

// startRecord chooses the recorder.
func (c *Core) startRecord() error {
	c.record = silent{}
	switch {
	case c.Capture == scheduler.CaptureNone:
		return nil
	case c.Capture == scheduler.CaptureEvents && c.rules.PageEvents:
		c.record = newPageEvents(c.Tree)
	case c.Capture == scheduler.CaptureEvents:
		l, err := newLedger(c.Config, c.tree)
		if err != nil {
			return err
		}
		c.record, c.tokenwise = l, true
	case c.rules.PageEvents:
		c.record = &residency{}
	default:
		return nil // the router never finds the reference's hashes
	}
	c.tree.watch = c.record
	return nil
}

// silent records nothing.
type silent struct{}

func (silent) begin(*scheduler.Pass)        {}
func (silent) evicted()                     {}
func (silent) prefilled(*request, int, int) {}
func (silent) generated(*request, int)      {}
func (silent) released(*request, int)       {}
func (silent) forgotten(*request)           {}
func (silent) stored(*tree, int32)          {}
func (silent) split(*tree, int32, int32)    {}
func (silent) removed(*tree, int32, int32)  {}

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

func (s *residency) removed(t *tree, n int32, from int32) {
	x := t.at(n)
	for at := x.promptEnd(); at > from; {
		i := (at - 1) / t.perNode
		at = max(from, i*t.perNode)
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
