// Package residency counts the cached KV blocks of an engine for each node of a prompt tree.
package residency

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/prompt"
)

// Nodes counts the cached blocks of each node of the tree, for scheduler.CaptureResidency. Requests allocate their
// blocks in order and release them in reverse order. So the blocks of a node are cached in order and evicted in
// reverse order.
type Nodes struct {
	tree    *prompt.Tree
	perNode int64
	blocks  []int32
	node    int   // node of the latest call
	first   int64 // first block of that node
}

// New returns empty counts for the nodes of tree.
func New(tree *prompt.Tree) *Nodes {
	per := int64(tree.PerNode())
	return &Nodes{tree: tree, perNode: per, first: -1 - per}
}

// NoteEvicted reports the eviction of a number of blocks with consecutive keys to out. The last block is evicted
// first.
func (n *Nodes) NoteEvicted(out *scheduler.Pass, key int64, blocks int32) {
	for end := key + int64(blocks); end > key; {
		first := max(key, (end-1)/n.perNode*n.perNode)
		n.Note(out, first, -int32(end-first))
		end = first
	}
}

// Note reports to out that the content at a key and after it is cached (by > 0) or evicted (by < 0). by is the number
// of blocks. Only the first or last copy of a content counts.
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
