package vllm

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/prompt"
)

// residents counts the cached blocks of each node of the tree in one group of layers,
// the one that is watched, for whom Config.Capture tells residency. In a group that attends to everything
// a request holds all blocks before one of its own and lets go of them after it, so that
// those of a node come and go in order.
type residents struct {
	out     *events
	perNode int64
	groups  int64
	watched int64
	nodes   []int32
}

func newResidents(c *Core, groups, watched int) *residents {
	return &residents{out: &c.events, perNode: int64(c.cfg.Tree.PerNode()), groups: int64(groups), watched: int64(watched)}
}

// note notes that content of that key, the first or last copy of it, is evicted, with -1, or cached, and that after it likewise, so
// much in all.
func (n *residents) note(key int64, by int32) {
	if key < 0 || key%n.groups != n.watched {
		return
	}
	at := key / n.groups
	node, i := int(at/n.perNode), int32(at%n.perNode)
	if node >= len(n.nodes) {
		n.nodes = slices.Grow(n.nodes, node+1-len(n.nodes))
		n.nodes = n.nodes[:cap(n.nodes)]
	}
	if want := i - min(by, 0); invariant.Enabled && n.nodes[node] != want {
		panic(fmt.Sprintf("node %d has %d cached blocks when block %d changes, want %d", node, n.nodes[node], i, want))
	}
	n.nodes[node] += by
	if all := n.out.out.KV; len(all) > 0 && all[len(all)-1].Node == prompt.NodeID(node) {
		all[len(all)-1].Blocks = n.nodes[node]
		return
	}
	n.out.out.KV = append(n.out.out.KV, scheduler.KVChange{Node: prompt.NodeID(node), Blocks: n.nodes[node]})
}
