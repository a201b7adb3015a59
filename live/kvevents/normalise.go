package kvevents

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/blockhash"
)

// Change is an event in the form for an index: with token hashes, a rank and a tier, without events of other caches.
type Change struct {
	// Clear means that all blocks of all ranks of the worker are removed; Event is empty.
	Clear bool
	Event scheduler.KVEvent
}

// normaliser converts the events of one publisher to changes. normaliser learns from the events which groups of
// caches count.
type normaliser struct {
	rank        int32 // rank of batches without a rank
	blockTokens int   // block size; 0: any
	kinds       map[group]string
	blocks      arena[scheduler.KVBlock] // memory for the blocks of events
}

// group is a group of caches of a rank.
type group struct {
	rank  int32
	index int64
}

// appendChanges appends the changes of a batch.
func (n *normaliser) appendChanges(b *Batch, dst []Change) []Change {
	rank := n.rank
	if b.HasRank {
		rank = b.Rank
	}
	for i := range b.Events {
		e := &b.Events[i]
		switch {
		case e.Kind == Ignored || !n.isCounted(rank, e):
		case e.Kind == Cleared:
			dst = append(dst, Change{Clear: true})
		case e.Kind == Removed:
			dst = append(dst, Change{Event: scheduler.KVEvent{Removed: e.Blocks, Rank: rank, Tier: e.tierOf()}})
		default:
			dst = append(dst, Change{Event: n.hashStored(rank, e)})
		}
	}
	return dst
}

// isCounted reports whether an event is about a cache that keeps the blocks of complete prefixes.
func (n *normaliser) isCounted(rank int32, e *Event) bool {
	if e.Kind == Cleared {
		return true
	}
	at := group{rank, e.Group}
	if e.Kind == Stored && e.HasGroup && e.CacheKind != "" {
		if n.kinds == nil {
			n.kinds = make(map[group]string)
		}
		if len(n.kinds) < maxGroups {
			n.kinds[at] = e.CacheKind
		}
	}
	kind := e.CacheKind
	if kind == "" && e.HasGroup {
		learned, ok := n.kinds[at]
		if !ok {
			return e.Group == 0
		}
		kind = learned
	}
	switch kind {
	case "", "full_attention", "mla_attention", "sink_full_attention":
		return true
	}
	return false
}

// maxGroups limits the memory for the groups of a publisher.
const maxGroups = 4096

// hashStored hashes the blocks of an event, up to the first incomplete block.
func (n *normaliser) hashStored(rank int32, e *Event) scheduler.KVEvent {
	out := scheduler.KVEvent{Rank: rank, Tier: e.tierOf()}
	if !areDistinct(e) {
		return out
	}
	out.Parent, out.HasParent = e.Parent, e.HasParent
	if n.blockTokens > 0 && e.BlockTokens != n.blockTokens {
		return out
	}
	out.Stored = n.blocks.allocList(len(e.Blocks))[:0]
	for i, b := range e.Blocks {
		h, ok := e.tokensHash(i)
		if !ok {
			break
		}
		out.Stored = append(out.Stored, scheduler.KVBlock{Seq: b, Tokens: h})
	}
	return out
}

// arena allocates short lists from larger pieces of memory.
type arena[T any] struct{ spare []T }

// allocList returns a list of n zero values.
func (a *arena[T]) allocList(n int) []T {
	const piece = 256
	if n > piece/8 {
		return make([]T, n)
	}
	if n > len(a.spare) {
		a.spare = make([]T, piece)
	}
	list := a.spare[:n:n]
	a.spare = a.spare[n:]
	return list
}

// areDistinct reports whether the blocks of an event differ from each other and from its parent.
func areDistinct(e *Event) bool {
	if len(e.Blocks) == 1 {
		return !e.HasParent || e.Blocks[0] != e.Parent
	}
	seen := make(map[uint64]struct{}, len(e.Blocks)+1)
	if e.HasParent {
		seen[e.Parent] = struct{}{}
	}
	for _, b := range e.Blocks {
		if _, again := seen[b]; again {
			return false
		}
		seen[b] = struct{}{}
	}
	return true
}

// tokensHash returns the hash of the tokens of block i. tokensHash returns false if the event has too few tokens.
func (e *Event) tokensHash(i int) (uint64, bool) {
	if e.TokensHashes != nil || e.Tokens == nil {
		if i < len(e.TokensHashes) {
			return e.TokensHashes[i], true
		}
		return 0, false
	}
	window := e.BlockTokens
	if e.Eagle {
		window++
	}
	from := i * e.BlockTokens
	if e.BlockTokens <= 0 || from+window > len(e.Tokens) {
		return 0, false
	}
	o := blockhash.Options{LoRA: e.LoRA, Eagle: e.Eagle}
	if i < len(e.Objects) && len(e.Objects[i]) > 0 {
		hashes := make([]uint64, len(e.Objects[i]))
		for k, x := range e.Objects[i] {
			hashes[k] = x.Hash
		}
		o.Multimodal = [][]uint64{hashes}
	}
	return blockhash.Request(e.Tokens[from:from+window], e.BlockTokens, o)[0], true
}
