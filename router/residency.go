package router

import (
	"fmt"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// residency is the block index for caches in which the parent of a cached block is always cached. For these caches,
// the tree of Index has no odd states, so the number of cached blocks of each prompt node is sufficient.
type residency struct{ *holdings }

func (r residency) observe(w sim.WorkerID, p *scheduler.Pass) error {
	for i, c := range p.KV {
		if i+1 == len(p.KV) || p.KV[i+1].Node != c.Node {
			r.changeNode(w, c) // the last change of the node
		}
	}
	return nil
}

// changeNode makes w hold the first c.Blocks blocks of a node.
func (r residency) changeNode(w sim.WorkerID, c scheduler.KVChange) {
	size := r.tree.Size(c.Node)
	if invariant.Enabled && (c.Blocks < 0 || c.Blocks > size) {
		panic(fmt.Sprintf("residency: worker %d holds %d blocks of node %d, must have 0 to %d", w, c.Blocks, c.Node, size))
	}
	if c.Blocks > 0 && c.Blocks < size && r.resizePart(c.Node, w, c.Blocks) {
		return // w has at most one part of the node
	}
	before := r.heldBlocks(c.Node, w)
	if c.Blocks == before {
		return
	}
	switch c.Blocks {
	case 0:
	case size:
		r.setFull(c.Node, w)
	default:
		r.addPart(c.Node, w, c.Blocks)
	}
	switch before {
	case 0:
	case size:
		r.clearFull(c.Node, w)
	default:
		r.dropPart(c.Node, w, before)
	}
}
