package router

import (
	"fmt"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// residency is the block index for caches in which a block's parent is always
// cached too: the tree of Index cannot get into its odd states there, and bits
// per prompt node say it all.
type residency struct{ holdings *holdings }

func newResidency(tree *prompt.Tree, workers int) *residency {
	return &residency{newHoldings(tree, workers)}
}

func (r *residency) grow(workers int) { r.holdings.grow(workers) }

func (r *residency) observe(w sim.WorkerID, p *scheduler.Pass) error {
	if invariant.Enabled {
		r.checkPass(w, p)
	}
	if r.holdings.hasUnitNodes() {
		r.flipNodes(w, p.KV)
		return nil
	}
	for i, c := range p.KV {
		if i+1 == len(p.KV) || p.KV[i+1].Node != c.Node {
			r.changeNode(w, c) // the last word on the node
		}
	}
	return nil
}

func (r *residency) checkPass(w sim.WorkerID, p *scheduler.Pass) {
	for _, c := range p.KV {
		if size := r.holdings.tree.Size(c.Node); c.Blocks < 0 || c.Blocks > size {
			panic(fmt.Sprintf("residency: worker %d holds %d blocks of node %d, want 0 to %d", w, c.Blocks, c.Node, size))
		}
	}
}

// flipNodes takes in changes of nodes of one block each.
func (r *residency) flipNodes(w sim.WorkerID, kv []scheduler.KVChange) {
	h := r.holdings
	for len(kv) > 0 {
		c := kv[0]
		nodes, rest := splitAlike(kv)
		kv = rest
		if c.Blocks > 0 {
			p := h.ensurePage(c.Node)
			if nodes &^= p.full[w]; nodes != 0 {
				p.setFull(w, nodes)
			}
			continue
		}
		p := h.pageOf(c.Node)
		if p == nil {
			continue
		}
		if nodes &= p.full[w]; nodes != 0 {
			p.clearFull(w, nodes)
			h.releasePage(c.Node, p)
		}
	}
}

// splitAlike returns the set of the nodes of the first changes, as far as they are on one
// page and end the same, and the other changes.
func splitAlike(kv []scheduler.KVChange) (nodes uint64, rest []scheduler.KVChange) {
	number, blocks := kv[0].Node/pageNodes, kv[0].Blocks
	for i, c := range kv {
		if c.Blocks != blocks || c.Node/pageNodes != number {
			return nodes, kv[i:]
		}
		nodes |= bitOf(c.Node)
	}
	return nodes, nil
}

// changeNode makes the first c.Blocks blocks of a node the ones w holds.
func (r *residency) changeNode(w sim.WorkerID, c scheduler.KVChange) {
	h := r.holdings
	n := c.Node
	p := h.pageOf(n)
	if p == nil {
		if c.Blocks == 0 {
			return
		}
		p = h.ensurePage(n)
	}
	part := int32(noPart)
	size := h.tree.Size(n)
	before := size
	if !p.isFull(w, bitOf(n)) {
		part = h.largestPart(p, n, w)
		before = h.parts[part].blocks
	}
	switch {
	case c.Blocks == before:
	case part != noPart && c.Blocks > 0 && c.Blocks < size:
		h.parts[part].blocks = c.Blocks
	default:
		r.replaceHolding(w, c, before)
	}
}

// replaceHolding makes w hold c.Blocks blocks of a node instead of before.
func (r *residency) replaceHolding(w sim.WorkerID, c scheduler.KVChange, before int32) {
	h := r.holdings
	p := h.pageOf(c.Node)
	size := h.tree.Size(c.Node)
	switch before {
	case 0:
	case size:
		p.clearFull(w, bitOf(c.Node))
	default:
		h.dropPart(p, c.Node, w, before)
	}
	switch c.Blocks {
	case 0:
		h.releasePage(c.Node, p)
	case size:
		p.setFull(w, bitOf(c.Node))
	default:
		h.addPart(p, c.Node, w, c.Blocks)
	}
}

func (r *residency) match(q *sim.Request, s *scores) {
	if !q.Prompt.Unique() {
		r.holdings.match(&q.Prompt, s)
	}
}
