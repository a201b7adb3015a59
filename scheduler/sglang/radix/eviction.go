package radix

import (
	"math"

	"github.com/replay-llm/replay/internal/heap"
)

// Policy is the eviction policy of a tree. Among nodes of equal rank, the node with the oldest stamp is evicted
// first.
type Policy uint8

const (
	LRU      Policy = iota // oldest stamp first
	LFU                    // fewest hits first
	SLRU                   // nodes with fewer hits than Eviction.ProtectedHits first
	Priority               // lowest priority first
	TLRU                   // evict nodes first that the next prompt of their conversation does not need
)

// Eviction is a policy with its parameters. Only TLRU uses the last three fields, in tokens: TLRU keeps n +
// NextPrompt - Threshold tokens of a conversation with n tokens.
type Eviction struct {
	Policy        Policy
	ProtectedHits int
	PageTokens    int
	Threshold     int
	NextPrompt    int
}

// ranks is the data about nodes for policies other than LRU.
type ranks struct {
	Eviction
	nodes []rankedNode
	// leaves contains the evictable nodes as Value, by rank and stamp. A node has at most one entry. Ranks and stamps
	// of nodes only grow, except in split, which replaces the entry.
	leaves heap.Heap[int64, int64, int32]
}

type rankedNode struct {
	hits     int64
	priority int64
	depth    int32 // under TLRU: the maximum length in pages of a sequence through this node
}

// UseEviction sets the eviction policy of an empty tree.
func (t *Tree) UseEviction(e Eviction) {
	if t.ranks = nil; e.Policy != LRU {
		t.ranks = &ranks{Eviction: e}
	}
}

// at returns the data about node n.
func (r *ranks) at(n int32) *rankedNode {
	for int(n) >= len(r.nodes) {
		r.nodes = append(r.nodes, rankedNode{})
	}
	return &r.nodes[n]
}

// Visit describes the inserting request.
type Visit struct {
	Counted  int32 // pages that the request has inserted before, which do not count as hits again
	Priority int64
	// Prompt is the number of pages of the prompt. If the sequence is longer, pages of the prompt get a higher
	// priority than the other pages.
	Prompt int32
}

// CountInsert records that v has inserted the path to node n. CountInsert does nothing under LRU.
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

// begin initializes the data of a new node.
func (r *ranks) begin(t *Tree, n int32) {
	*r.at(n) = rankedNode{priority: math.MinInt64, depth: t.At(n).To}
	if r.Policy != TLRU {
		return
	}
	for up := t.At(n).Parent; up != Root && r.at(up).depth < t.At(n).To; up = t.At(up).Parent {
		r.at(up).depth = t.At(n).To
	}
}

// split copies the data of lower to the new node upper. The rank of lower may decrease under TLRU, so that its entry
// is replaced.
func (r *ranks) split(t *Tree, upper, lower int32) {
	r.at(max(upper, lower))
	r.nodes[upper] = r.nodes[lower]
	if r.Policy == TLRU && t.At(lower).listed {
		r.leaves.Filter(func(e heap.Item[int64, int64, int32]) bool { return e.Value != lower })
		r.leaves.Push(r.rankOf(t, lower), t.At(lower).stamp, lower)
	}
}

// rankOf returns the eviction rank of a node; the lowest rank is evicted first.
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

// first returns the evictable node with the lowest rank and stamp, or Root if there is none. The entry of this node
// is then the first of leaves.
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
