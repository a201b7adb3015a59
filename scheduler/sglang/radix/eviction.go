package radix

import (
	"math"

	"github.com/replay-llm/replay/internal/heap"
)

// Policy is the eviction policy of a tree; among equals the oldest stamp is evicted first.
type Policy uint8

const (
	LRU      Policy = iota // the oldest stamp
	LFU                    // the fewest hits
	SLRU                   // those with fewer hits than Eviction.ProtectedHits
	Priority               // the lowest priority
	TLRU                   // nodes that a conversation's next prompt does not need
)

// Eviction is a policy with its parameters. The last two count pages' tokens, and of them
// TLRU alone makes use: a conversation that once had n tokens keeps n + NextPrompt - Threshold.
type Eviction struct {
	Policy        Policy
	ProtectedHits int
	PageTokens    int
	Threshold     int
	NextPrompt    int
}

// ranks is what a tree knows of its nodes under another policy than LRU.
type ranks struct {
	Eviction
	nodes []rankedNode
	// leaves has the evictable nodes, the Value of an entry, by rank and stamp. A node has
	// one entry at most; ranks and stamps only grow, except reenter.
	leaves heap.Heap[int64, int64, int32]
}

type rankedNode struct {
	hits     int64
	priority int64
	depth    int32 // under TLRU: the most pages that a sequence over this node has had
}

// UseEviction makes an empty tree evict by e.
func (t *Tree) UseEviction(e Eviction) {
	if t.ranks = nil; e.Policy != LRU {
		t.ranks = &ranks{Eviction: e}
	}
}

// at returns what r knows of node n.
func (r *ranks) at(n int32) *rankedNode {
	for int(n) >= len(r.nodes) {
		r.nodes = append(r.nodes, rankedNode{})
	}
	return &r.nodes[n]
}

// Visit is the inserting request.
type Visit struct {
	Counted  int32 // pages that it has inserted before, which are not hit again
	Priority int64
	// Prompt is the first pages of the sequence, which count for more than the rest where there is more.
	Prompt int32
}

// CountInsert notes that v has inserted what ends with node n. Under LRU it does nothing.
func (t *Tree) CountInsert(n int32, v Visit) {
	r := t.ranks
	if r == nil || n == Root {
		return
	}
	longer := v.Prompt > 0 && v.Prompt < t.At(n).To
	for ; n != Root; n = t.At(n).Parent {
		x, to := r.at(n), t.At(n).To
		if to > v.Counted {
			x.hits++
		}
		if x.priority = max(x.priority, v.Priority); longer && to <= v.Prompt {
			x.priority = max(x.priority, v.Priority+1)
		}
	}
}

// begin notes a new node.
func (r *ranks) begin(t *Tree, n int32) {
	*r.at(n) = rankedNode{priority: math.MinInt64, depth: t.At(n).To}
	if r.Policy != TLRU {
		return
	}
	for up := t.At(n).Parent; up != Root && r.at(up).depth < t.At(n).To; up = t.At(up).Parent {
		r.at(up).depth = t.At(n).To
	}
}

// split gives upper what lower has been given. Nodes below it may be unneeded by the conversation.
func (r *ranks) split(t *Tree, upper, lower int32) {
	r.at(max(upper, lower))
	r.nodes[upper] = r.nodes[lower]
	if r.Policy == TLRU && t.At(lower).listed {
		r.leaves.Filter(func(e heap.Item[int64, int64, int32]) bool { return e.Value != lower })
		r.leaves.Push(r.rankOf(t, lower), t.At(lower).stamp, lower)
	}
}

// rankOf returns what a node is evicted by, the lowest first.
func (r *ranks) rankOf(t *Tree, n int32) int64 {
	x := r.at(n)
	switch r.Policy {
	case LFU:
		return x.hits
	case SLRU:
		if x.hits >= int64(r.ProtectedHits) {
			return 1
		}
	case Priority:
		return x.priority
	case TLRU:
		kept := max(int(x.depth)*r.PageTokens+r.NextPrompt-r.Threshold, 0)
		if int(t.At(n).From)*r.PageTokens >= kept {
			return -1
		}
	}
	return 0
}

// first returns the evictable node of the lowest rank and stamp. Its entry is then the first
// of the leaves; Root when nothing is evictable.
func (r *ranks) first(t *Tree) int32 {
	for len(r.leaves) > 0 {
		e := r.leaves[0]
		x := t.At(e.Value)
		if !x.leaf {
			x.listed = false
			if r.leaves.Pop(); x.dead {
				t.free = append(t.free, e.Value)
			}
			continue
		}
		rank := r.rankOf(t, e.Value)
		if rank == e.Key && x.stamp == e.Tie {
			return e.Value
		}
		r.leaves.SetFirst(rank, x.stamp)
	}
	return Root
}
