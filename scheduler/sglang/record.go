package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim/prompt"
)

// recorder keeps the record of the cache that a router is shown.
type recorder interface {
	publish(p *scheduler.Pass) // enters into p what has happened since it was last asked
	waits() bool               // there is something to publish
	// nodes calls need with the prompt nodes of what is to be published.
	nodes(need func(prompt.NodeID))
}

// startRecord chooses the recorder.
func (c *Core) startRecord() {
	switch c.Capture {
	case scheduler.CaptureNone:
		c.record = silent{}
	case scheduler.CaptureEvents:
		e := newPageEvents(c.Tree)
		c.record, c.pages.tree.Watch = e, e
	case scheduler.CaptureResidency:
		s := &residency{}
		if c.pages.pairs {
			s.heads = make(map[head]int32)
		}
		c.record, c.pages.tree.Watch = s, s
	}
}

// silent records nothing.
type silent struct{}

func (silent) publish(*scheduler.Pass)   {}
func (silent) waits() bool               { return false }
func (silent) nodes(func(prompt.NodeID)) {}

// publishRecord publishes the changes of the cache when the pass f ends, if SGLang does: with prompts, and with every
// LogInterval-th pass of tokens alone.
func (c *Core) publishRecord(f *flight, p *scheduler.Pass) {
	if len(f.batch) > 0 || f.decodes > 0 && c.decodesUnlogged() == 0 {
		c.record.publish(p)
	}
}

// TellIdle publishes what has happened to the cache when nothing is left to do.
func (c *Core) TellIdle(p *scheduler.Pass) {
	if c.live == 0 {
		c.record.publish(p)
	}
}

// decodesUnlogged returns how many passes of tokens alone have ended since the latest of them
// that published.
func (c *Core) decodesUnlogged() int {
	return int((c.batch.done - c.batch.doneMixed + c.drafts.verified) % int64(c.LogInterval))
}

// residency records how much of each prompt node is cached.
type residency struct {
	changes []scheduler.KVChange
	// heads counts the nodes of the tree by their first page, if the tree distinguishes pages by the token after them:
	// a page is cached as long as one of them is.
	heads map[head]int32
}

// head is a page of a prompt node.
type head struct {
	node prompt.NodeID
	page int32
}

func (s *residency) publish(p *scheduler.Pass) {
	p.KV = append(p.KV, s.changes...)
	s.changes = s.changes[:0]
}

func (s *residency) waits() bool { return len(s.changes) > 0 }

func (s *residency) nodes(need func(prompt.NodeID)) {
	for i := range s.changes {
		need(s.changes[i].Node)
	}
}

func (s *residency) Stored(t *radix.Tree, n int32) {
	s.countHead(t, n, 1)
	x := t.At(n)
	for at, end := x.From, promptEnd(x); at < end; {
		i := at / t.PerNode
		at = min(end, (i+1)*t.PerNode)
		s.recordChange(x.Seq.Nodes[i], at-i*t.PerNode)
	}
}

func (s *residency) Split(t *radix.Tree, _, lower int32) { s.countHead(t, lower, 1) }

// countHead counts n in or out and returns how many nodes begin as it does.
func (s *residency) countHead(t *radix.Tree, n, by int32) int32 {
	x := t.At(n)
	if s.heads == nil || promptEnd(x) == x.From {
		return 0
	}
	h := head{x.Seq.Nodes[x.From/t.PerNode], x.From % t.PerNode}
	s.heads[h] += by
	left := s.heads[h]
	if left == 0 {
		delete(s.heads, h)
	}
	return left
}

func (s *residency) Removed(t *radix.Tree, n, from int32) {
	x := t.At(n)
	if s.countHead(t, n, -1) > 0 {
		from++
	}
	for at := promptEnd(x); at > from; {
		i := (at - 1) / t.PerNode
		at = max(from, i*t.PerNode)
		s.recordChange(x.Seq.Nodes[i], at-i*t.PerNode)
	}
}

func (s *residency) recordChange(n prompt.NodeID, blocks int32) {
	s.changes = append(s.changes, scheduler.KVChange{Node: n, Blocks: blocks})
}

// promptEnd returns the end of the pages of n that are pages of prompt nodes.
func promptEnd(n *radix.Node) int32 {
	if n.Seq.Seed > 0 {
		return n.From
	}
	return max(n.From, min(n.To, n.Seq.Full))
}
