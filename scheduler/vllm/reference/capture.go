package reference

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/blockhash"
	"github.com/replay-llm/replay/sim/prompt"
)

// capture writes down what happens to the cache, as far as anybody looks.
type capture struct {
	level  scheduler.Capture
	tree   *prompt.Tree
	chains bool              // blocks are named by content, not each by itself
	source map[int64]*source // by request, as long as its own blocks can be named
	out    *scheduler.Pass
	event  scheduler.KVEvent // Stored of the order under way
	gone   []uint64          // Removed of the order under way
}

// source is what names the blocks of a request in events.
type source struct {
	prompt prompt.Prompt
	// Hashes of the blocks of a unique prompt. Without chains, sequence is nil.
	local, sequence []uint64
}

func (k *capture) init(cfg vllm.Config) {
	k.level, k.tree, k.chains = cfg.Capture, cfg.Tree, cfg.PrefixCaching
	if k.level == scheduler.CaptureEvents {
		k.source = make(map[int64]*source)
	}
}

func (k *capture) submitted(r *sim.Request) {
	if k.level != scheduler.CaptureEvents {
		return
	}
	s := &source{prompt: r.Prompt}
	if r.Prompt.Unique() {
		s.local, s.sequence = k.tree.Hashes(r.Prompt)
	}
	if !k.chains {
		s.sequence = nil
	}
	k.source[int64(r.ID)] = s
}

// finished forgets r, or leaves it to the eviction of its first block.
func (k *capture) finished(r *request) {
	if k.level != scheduler.CaptureEvents {
		return
	}
	if len(k.source[int64(r.id)].sequence) == 0 || r.own.resident == 0 {
		delete(k.source, int64(r.id))
	}
}

func (k *capture) begin(p *scheduler.Pass) { k.out = p }

// residency notes that the first blocks of a node are cached.
func (k *capture) residency(n prompt.NodeID, blocks int32) {
	if k.level == scheduler.CaptureResidency {
		k.out.KV = append(k.out.KV, scheduler.KVChange{Node: n, Blocks: blocks})
	}
}

// order begins a Use of r's blocks from the given one.
func (k *capture) order(c *Core, r *request, from int) {
	if k.level != scheduler.CaptureEvents {
		return
	}
	k.event = scheduler.KVEvent{}
	if from > 0 {
		k.event.Parent, k.event.HasParent = k.seq(c, r, from-1), true
	}
}

// hit notes that r got block i of its list and found it cached: it becomes the
// parent of what is stored.
func (k *capture) hit(c *Core, r *request, i int) {
	if k.level == scheduler.CaptureEvents {
		k.event.Parent, k.event.HasParent = k.seq(c, r, i), true
	}
}

// stored notes that r got blocks from..to-1 and none of them was cached.
func (k *capture) stored(c *Core, r *request, from, to int) {
	if k.level != scheduler.CaptureEvents {
		return
	}
	for i := from; i < to; i++ {
		k.event.Stored = append(k.event.Stored, scheduler.KVBlock{Seq: k.seq(c, r, i), Tokens: k.local(c, r, i)})
	}
}

// evicted notes that the n highest blocks of a segment go. It is called for
// CaptureEvents alone.
func (k *capture) evicted(s *segment, n int32) {
	node := s.node
	for i := s.hi - 1; i >= s.hi-n; i-- {
		if node == prompt.None {
			k.gone = append(k.gone, k.own(int64(s.uid), int(i)))
			continue
		}
		if i < k.tree.Start(node) {
			node = k.tree.Parent(node)
		}
		k.gone = append(k.gone, k.tree.SequenceHash(node, int(i-k.tree.Start(node))))
	}
	if node == prompt.None && s.owner == none && k.chains && s.hi == n {
		delete(k.source, int64(s.uid)) // its first block goes last
	}
}

// publish ends a Use: one Stored, then one Removed.
func (k *capture) publish() {
	if k.level != scheduler.CaptureEvents {
		return
	}
	if len(k.event.Stored) > 0 {
		k.out.Events = append(k.out.Events, k.event)
	}
	if len(k.gone) > 0 {
		k.out.Events = append(k.out.Events, scheduler.KVEvent{Removed: append([]uint64(nil), k.gone...)})
		k.gone = k.gone[:0]
	}
	k.event = scheduler.KVEvent{}
}

// promoted notes that r's partial block became its last full one.
func (k *capture) promoted(c *Core, r *request) {
	if k.level != scheduler.CaptureEvents {
		return
	}
	last := r.full - 1
	e := scheduler.KVEvent{Stored: []scheduler.KVBlock{{Seq: k.seq(c, r, last), Tokens: k.local(c, r, last)}}}
	if last > 0 {
		e.Parent, e.HasParent = k.seq(c, r, last-1), true
	}
	k.out.Events = append(k.out.Events, e)
}

// seq is the name of block i of r's list.
func (k *capture) seq(c *Core, r *request, i int) uint64 {
	if i < r.shared {
		return k.shared(r.path, i)
	}
	return k.own(int64(r.id), i-r.shared)
}

// shared is the name of block i of a path.
func (k *capture) shared(path []prompt.NodeID, i int) uint64 {
	n := path[k.tree.Index(path, i)]
	return k.tree.SequenceHash(n, i-int(k.tree.Start(n)))
}

// own names block i of what only one request can name: a block of a unique
// prompt by its hash, any other by a number of its own. That one is the hash of
// 16 bytes, which are never the tokens of a prompt's block.
func (k *capture) own(request int64, i int) uint64 {
	if s := k.source[request]; s != nil && i < len(s.sequence) {
		return s.sequence[i]
	}
	return ownHash(request, i)
}

// local is the hash of the tokens of block i of r's list; a block with
// generated tokens has one of its own.
func (k *capture) local(c *Core, r *request, i int) uint64 {
	s := k.source[int64(r.id)]
	switch {
	case i >= int(s.prompt.Blocks):
		return ownHash(int64(r.id), i) | 1<<62
	case s.prompt.Unique():
		return s.local[i]
	}
	n := s.prompt.Nodes[k.tree.Index(s.prompt.Nodes, i)]
	return k.tree.LocalHash(n, i-int(k.tree.Start(n)))
}

func ownHash(request int64, i int) uint64 {
	return blockhash.Chain(^uint64(request), uint64(i)) | 1<<63
}
