package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim/prompt"
)

// recorder keeps the record of the cache that a router is shown.
type recorder interface {
	begin(p *scheduler.Pass) // what happens from now on belongs to p
	evicted()                // an eviction is over
}

// startRecord chooses the recorder.
func (c *Core) startRecord() {
	switch c.Capture {
	case scheduler.CaptureNone:
		c.record = silent{}
	case scheduler.CaptureEvents:
		e := newPageEvents(c.Tree)
		c.record, c.tree.Watch = e, e
	case scheduler.CaptureResidency:
		s := &residency{}
		c.record, c.tree.Watch = s, s
	}
}

// silent records nothing.
type silent struct{}

func (silent) begin(*scheduler.Pass) {}
func (silent) evicted()              {}

// residency records how much of each prompt node is cached.
type residency struct {
	pass *scheduler.Pass
}

func (s *residency) begin(p *scheduler.Pass) { s.pass = p }

func (*residency) evicted() {}

func (s *residency) Stored(t *radix.Tree, n int32) {
	x := t.At(n)
	for at, end := x.From, promptEnd(x); at < end; {
		i := at / t.PerNode
		at = min(end, (i+1)*t.PerNode)
		s.recordChange(x.Seq.Nodes[i], at-i*t.PerNode)
	}
}

func (*residency) Split(*radix.Tree, int32, int32) {}

func (s *residency) Removed(t *radix.Tree, n, from int32) {
	x := t.At(n)
	for at := promptEnd(x); at > from; {
		i := (at - 1) / t.PerNode
		at = max(from, i*t.PerNode)
		s.recordChange(x.Seq.Nodes[i], at-i*t.PerNode)
	}
}

func (s *residency) recordChange(n prompt.NodeID, blocks int32) {
	s.pass.KV = append(s.pass.KV, scheduler.KVChange{Node: n, Blocks: blocks})
}

// promptEnd returns the end of the pages of n that are pages of prompt nodes.
func promptEnd(n *radix.Node) int32 {
	if n.Seq.Seed > 0 {
		return n.From
	}
	return max(n.From, min(n.To, n.Seq.Full))
}
