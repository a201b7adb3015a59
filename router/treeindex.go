package router

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// treeIndex puts an Index behind a dispatcher.
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

// match scores the prompt's blocks. Unique prompts have no blocks that anyone
// could have.
func (x *treeIndex) match(q *sim.Request, s *scores) {
	if q.Prompt.Unique() {
		return
	}
	x.query = x.tree.AppendLocal(x.query[:0], &q.Prompt)
	x.found = x.index.Match(x.query, false, x.found[:0])
	s.raiseMatches(x.found)
}
