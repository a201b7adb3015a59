package router

import (
	"fmt"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// residency is the block index for caches in which a block's parent is always
// cached too: the tree of Index cannot get into its odd states there, and how
// many blocks of each prompt node are cached is enough.
type residency struct{ *holdings }

func (r residency) observe(w sim.WorkerID, p *scheduler.Pass) error {
	for i, c := range p.KV {
		if i+1 == len(p.KV) || p.KV[i+1].Node != c.Node {
			r.changeNode(w, c) // the last word on the node
		}
	}
	return nil
}

// changeNode makes the first c.Blocks blocks of a node the ones w holds.
func (r residency) changeNode(w sim.WorkerID, c scheduler.KVChange) {
	size := r.tree.Size(c.Node)
	if invariant.Enabled && (c.Blocks < 0 || c.Blocks > size) {
		panic(fmt.Sprintf("residency: worker %d holds %d blocks of node %d, must have 0 to %d", w, c.Blocks, c.Node, size))
	}
	if c.Blocks > 0 && c.Blocks < size && r.resizePart(c.Node, w, c.Blocks) {
		return // it has one part at most
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
