// Package residency counts the KV blocks of each node of a tree of prompts that an engine has cached.
package residency

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/prompt"
)

// Nodes counts the cached blocks of each node of the tree, where scheduler.CaptureResidency is asked for. A request
// holds all blocks before one that it holds and releases them after it, so that those of a node come and go in order.
type Nodes struct {
	tree    *prompt.Tree
	perNode int64
	blocks  []int32
	node    int   // the latest that was noted
	first   int64 // its first block
}

// New returns counts of the nodes of tree.
func New(tree *prompt.Tree) *Nodes {
	per := int64(tree.PerNode())
	return &Nodes{tree: tree, perNode: per, first: -1 - per}
}

// NoteEvicted notes in out that a number of blocks with keys from one on is evicted, the last of them first.
func (n *Nodes) NoteEvicted(out *scheduler.Pass, key int64, blocks int32) {
	for end := key + int64(blocks); end > key; {
		first := max(key, (end-1)/n.perNode*n.perNode)
		n.Note(out, first, -int32(end-first))
		end = first
	}
}

// Note notes in out that the content of a key, the first or last copy of it, is evicted, with -1, or cached, and that after it likewise,
// as much in all.
func (n *Nodes) Note(out *scheduler.Pass, key int64, by int32) {
	if key < 0 {
		return
	}
	if d := key - n.first; d < 0 || d >= n.perNode {
		n.node = int(key / n.perNode)
		n.first = int64(n.node) * n.perNode
	}
	if n.node >= len(n.blocks) {
		n.blocks = slices.Grow(n.blocks, max(n.node+1, n.tree.Len())-len(n.blocks))
		n.blocks = n.blocks[:cap(n.blocks)]
	}
	blocks := n.blocks[n.node]
	if want := int32(key-n.first) - min(by, 0); invariant.Enabled && blocks != want {
		panic(fmt.Sprintf("node %d has %d cached blocks when block %d changes, must have %d", n.node, blocks, key-n.first, want))
	}
	blocks += by
	n.blocks[n.node] = blocks
	if all := out.KV; len(all) > 0 && all[len(all)-1].Node == prompt.NodeID(n.node) {
		all[len(all)-1].Blocks = blocks
		return
	}
	out.KV = append(out.KV, scheduler.KVChange{Node: prompt.NodeID(n.node), Blocks: blocks})
}
