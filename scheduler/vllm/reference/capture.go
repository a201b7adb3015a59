package reference

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// capture records changes of the cache, as far as the capture level requires.
type capture struct {
	level  scheduler.Capture
	tree   *prompt.Tree
	names  *blocks.Names // set for CaptureEvents
	chains bool          // blocks are named by content; otherwise every block has a unique name
	out    *scheduler.Pass
	event  scheduler.KVEvent // stored blocks of the current use
	gone   []uint64          // evicted blocks of the current use
}

func (k *capture) init(cfg *vllm.Config) {
	k.level, k.tree, k.chains = cfg.Capture, cfg.Tree, cfg.PrefixCaching
	if k.hasEvents() {
		k.names = blocks.NewNames(cfg.Tree, cfg.PrefixCaching)
	}
}

// hasEvents reports whether events are captured.
func (k *capture) hasEvents() bool { return k.level == scheduler.CaptureEvents }

// addRequest registers the tokens of r, so that events can name its blocks.
func (k *capture) addRequest(r *sim.Request) {
	if k.hasEvents() {
		k.names.Add(r)
	}
}

// removeRequest unregisters r, or leaves that to the eviction of its first block.
func (k *capture) removeRequest(r *request) {
	if k.hasEvents() && (!k.names.Hashed(r.id) || r.own.resident == 0) {
		k.names.Remove(r.id)
	}
}

func (k *capture) beginPass(p *scheduler.Pass) { k.out = p }

// noteResidency records how many of the first blocks of a node are cached.
func (k *capture) noteResidency(n prompt.NodeID, blocks int32) {
	if k.level == scheduler.CaptureResidency {
		k.out.KV = append(k.out.KV, scheduler.KVChange{Node: n, Blocks: blocks})
	}
}

// beginUse begins the allocation of blocks of r from block `from` on.
func (k *capture) beginUse(r *request, from int) {
	if k.hasEvents() {
		k.event = scheduler.KVEvent{}
		k.setParent(r, from-1)
	}
}

// noteHit records that block i of r was found in the cache. Blocks stored after block i have block i as their parent.
func (k *capture) noteHit(r *request, i int) {
	if k.hasEvents() {
		k.setParent(r, i)
	}
}

// setParent makes block i of r the parent of the stored blocks, if i >= 0.
func (k *capture) setParent(r *request, i int) {
	if i >= 0 {
		k.event.Parent, k.event.HasParent = k.sequenceHash(r, i), true
	}
}

// noteStored records that r allocated blocks from..to-1, which were not cached.
func (k *capture) noteStored(r *request, from, to int) {
	if k.hasEvents() {
		for i := from; i < to; i++ {
			k.event.Stored = append(k.event.Stored, k.nameBlock(r, i))
		}
	}
}

// noteEvicted records the eviction of the last n blocks of a segment. noteEvicted must be called with CaptureEvents
// only.
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
		k.names.Remove(s.uid) // the first block of a request is evicted last
	}
}

// noteLeft records that block b of a tiered pool was evicted from the device.
func (k *capture) noteLeft(b *blocks.Block) {
	if k.hasEvents() {
		k.gone = append(k.gone, b.Hashes.Seq)
	}
}

// noteFetched records that b was copied from host memory. Consecutive blocks are published together.
func (k *capture) noteFetched(b *blocks.Block) {
	if !k.hasEvents() {
		return
	}
	if len(k.event.Stored) == 0 {
		k.event.Parent, k.event.HasParent = b.Hashes.Parent, b.Hashes.Follows
	}
	k.event.Stored = append(k.event.Stored, b.Hashes.KVBlock)
}

// publishUse appends the events of a use: one for stored blocks, then one for removed blocks.
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

// notePromoted records that the partial block of r became its last full block.
func (k *capture) notePromoted(r *request) {
	if k.hasEvents() {
		h := k.hashesOf(r, r.full-1)
		k.out.Events = append(k.out.Events, scheduler.KVEvent{
			Parent: h.Parent, HasParent: h.Follows, Stored: []scheduler.KVBlock{h.KVBlock},
		})
	}
}

// hashesOf returns the hashes of block i of r for events.
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

// nameBlock returns the name of block i of r for events.
func (k *capture) nameBlock(r *request, i int) scheduler.KVBlock {
	return scheduler.KVBlock{Seq: k.sequenceHash(r, i), Tokens: k.names.Tokens(r.id, i)}
}

// sequenceHash returns the sequence hash of block i of r.
func (k *capture) sequenceHash(r *request, i int) uint64 {
	if i < r.shared {
		return k.names.Path(r.path, i)
	}
	return k.names.Own(r.id, i-r.shared)
}
