package router

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// treeIndex puts an Index behind a KV router.
type treeIndex struct {
	tree  *prompt.Tree
	index *Index
	query []uint64
	found []Match
}

func newTreeIndex(tree *prompt.Tree) *treeIndex {
	return &treeIndex{tree: tree, index: NewIndex()}
}

func (x *treeIndex) grow(int) {}

func (x *treeIndex) observe(w sim.WorkerID, p *scheduler.Pass) error {
	for _, e := range p.Events {
		if e.Tier != scheduler.Device {
			continue // a router follows the device alone
		}
		if err := x.index.Apply(w, e); err != nil {
			return err
		}
	}
	return nil
}

// match scores the prompt's blocks. Workers are looked up under rank 0; what
// other ranks have counts in the maximum only. Unique prompts have no blocks
// that anyone could have.
func (x *treeIndex) match(q *prompt.Prompt, s *scores) {
	if q.Unique() {
		return
	}
	x.query = x.tree.AppendLocal(x.query[:0], q)
	x.found = x.index.Match(x.query, false, x.found[:0])
	for _, m := range x.found {
		if m.Member.Rank == 0 {
			s.raise(m.Member.Worker, m.Blocks)
		}
		s.max = max(s.max, m.Blocks)
	}
}
