package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim/prompt"
)

// recorder records the changes of the cache for a router.
type recorder interface {
	publish(p *scheduler.Pass) // adds the changes since the latest call to p
	waits() bool               // reports whether there are unpublished changes
	// nodes calls need with the prompt nodes of unpublished changes.
	nodes(need func(prompt.NodeID))
}

// startRecord selects the recorder.
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

// publishRecord publishes the changes of the cache at the end of pass f, under the conditions of SGLang: after passes
// with prompts, and after every LogInterval-th pass that only decodes.
func (c *Core) publishRecord(f *flight, p *scheduler.Pass) {
	if len(f.batch) > 0 || f.decodes > 0 && c.decodesUnlogged() == 0 {
		c.record.publish(p)
	}
}

// ReportIdle publishes the remaining changes of the cache if no request is left.
func (c *Core) ReportIdle(p *scheduler.Pass) {
	if c.live == 0 {
		c.record.publish(p)
	}
}

// decodesUnlogged returns the number of finished decode-only passes since the latest decode-only pass that published.
func (c *Core) decodesUnlogged() int {
	return int((c.batch.done - c.batch.doneMixed + c.drafts.verified) % int64(c.LogInterval))
}

// residency records how many pages of each prompt node are cached.
type residency struct {
	changes []scheduler.KVChange
	// heads counts the nodes of the tree by their first page, if the tree distinguishes pages by the next token. A
	// page is cached as long as its count is above 0.
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

// countHead adds by to the count of the first page of n and returns the count.
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

// promptEnd returns the end of the pages of n that belong to prompt nodes.
func promptEnd(n *radix.Node) int32 {
	if n.Seq.Seed > 0 {
		return n.From
	}
	return max(n.From, min(n.To, n.Seq.Full))
}
