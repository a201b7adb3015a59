package reference

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// capture writes down what happens to the cache, as far as an observer reads it.
type capture struct {
	level  scheduler.Capture
	tree   *prompt.Tree
	names  *blocks.Names // for CaptureEvents
	chains bool          // blocks are named by content, not each alone
	out    *scheduler.Pass
	event  scheduler.KVEvent // Stored of the order in progress
	gone   []uint64          // Removed of the order in progress
}

func (k *capture) init(cfg *vllm.Config) {
	k.level, k.tree, k.chains = cfg.Capture, cfg.Tree, cfg.PrefixCaching
	if k.hasEvents() {
		k.names = blocks.NewNames(cfg.Tree, cfg.PrefixCaching)
	}
}

// hasEvents reports whether events are captured.
func (k *capture) hasEvents() bool { return k.level == scheduler.CaptureEvents }

// addRequest makes the blocks of r ones that can be named.
func (k *capture) addRequest(r *sim.Request) {
	if k.hasEvents() {
		k.names.Add(r)
	}
}

// removeRequest forgets r, or leaves it to the eviction of its first block.
func (k *capture) removeRequest(r *request) {
	if k.hasEvents() && (!k.names.Hashed(r.id) || r.own.resident == 0) {
		k.names.Remove(r.id)
	}
}

func (k *capture) beginPass(p *scheduler.Pass) { k.out = p }

// noteResidency notes that the first blocks of a node are cached.
func (k *capture) noteResidency(n prompt.NodeID, blocks int32) {
	if k.level == scheduler.CaptureResidency {
		k.out.KV = append(k.out.KV, scheduler.KVChange{Node: n, Blocks: blocks})
	}
}

// beginUse begins a use of r's blocks from the given one.
func (k *capture) beginUse(r *request, from int) {
	if k.hasEvents() {
		k.event = scheduler.KVEvent{}
		k.setParent(r, from-1)
	}
}

// noteHit notes that r got block i of its list and found it cached: it becomes the
// parent of what is stored.
func (k *capture) noteHit(r *request, i int) {
	if k.hasEvents() {
		k.setParent(r, i)
	}
}

// setParent makes block i of r, if there is one, the parent of the stored blocks.
func (k *capture) setParent(r *request, i int) {
	if i >= 0 {
		k.event.Parent, k.event.HasParent = k.sequenceHash(r, i), true
	}
}

// noteStored notes that r got blocks from..to-1 and none of them was cached.
func (k *capture) noteStored(r *request, from, to int) {
	if k.hasEvents() {
		for i := from; i < to; i++ {
			k.event.Stored = append(k.event.Stored, k.nameBlock(r, i))
		}
	}
}

// noteEvicted notes that the n highest blocks of a segment go. It is called for
// CaptureEvents alone.
func (k *capture) noteEvicted(s *segment, n int32) {
	node := s.node
	for i := s.hi - 1; i >= s.hi-n; i-- {
		if node == prompt.None {
			k.gone = append(k.gone, k.names.Own(s.uid, int(i)))
			continue
		}
		if i < k.tree.Start(node) {
			node = k.tree.Parent(node)
		}
		k.gone = append(k.gone, k.tree.SequenceHash(node, int(i-k.tree.Start(node))))
	}
	if node == prompt.None && s.owner == none && k.chains && s.hi == n {
		k.names.Remove(s.uid) // its first block goes last
	}
}

// noteLeft notes that b of a tiered pool was evicted from the device.
func (k *capture) noteLeft(b *blocks.Block) {
	if k.hasEvents() {
		k.gone = append(k.gone, b.Hashes.Seq)
	}
}

// noteFetched notes that b came from host memory; consecutive ones are
// published together.
func (k *capture) noteFetched(b *blocks.Block) {
	if !k.hasEvents() {
		return
	}
	if len(k.event.Stored) == 0 {
		k.event.Parent, k.event.HasParent = b.Hashes.Parent, b.Hashes.Follows
	}
	k.event.Stored = append(k.event.Stored, b.Hashes.KVBlock)
}

// publishUse ends a use: one Stored, then one Removed.
func (k *capture) publishUse() {
	if !k.hasEvents() {
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

// notePromoted notes that r's partial block became its last full one.
func (k *capture) notePromoted(r *request) {
	if k.hasEvents() {
		h := k.hashesOf(r, r.full-1)
		k.out.Events = append(k.out.Events, scheduler.KVEvent{
			Parent: h.Parent, HasParent: h.Follows, Stored: []scheduler.KVBlock{h.KVBlock},
		})
	}
}

// hashesOf returns what events report of block i of r's list.
func (k *capture) hashesOf(r *request, i int) (h blocks.Hashes) {
	if !k.hasEvents() {
		return h
	}
	h.KVBlock = k.nameBlock(r, i)
	if i > 0 {
		h.Parent, h.Follows = k.sequenceHash(r, i-1), true
	}
	return h
}

// nameBlock names block i of r's list.
func (k *capture) nameBlock(r *request, i int) scheduler.KVBlock {
	return scheduler.KVBlock{Seq: k.sequenceHash(r, i), Tokens: k.names.Tokens(r.id, i)}
}

// sequenceHash returns the sequence hash of block i of r's list.
func (k *capture) sequenceHash(r *request, i int) uint64 {
	if i < r.shared {
		return k.names.Path(r.path, i)
	}
	return k.names.Own(r.id, i-r.shared)
}
