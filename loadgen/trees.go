package loadgen

import (
	"sync"

	"github.com/replay-llm/replay/sim/prompt"
)

// trees are the joined trees of the prompts of a workload, for all its replays.
type trees struct {
	turns []Turn // turns of the workload; a copy of the workload with other turns does not use the trees
	mu    sync.Mutex
	all   map[treeKey]func() (*prompt.Tree, *prompt.List)
}

// treeKey has the settings on which the tree of a workload depends.
type treeKey struct {
	traceBlock, block int
	wrap              bool
}

// ShareTrees keeps the joined trees of w's prompts in memory, so that further replays of w do not intern its prompts
// again.
func (w *Workload) ShareTrees() {
	if len(w.Turns) > 0 {
		w.trees = &trees{turns: w.Turns, all: map[treeKey]func() (*prompt.Tree, *prompt.List){}}
	}
}

// SharedTree returns the joined tree of w's prompts, and the prompts by turn. Concurrent replays may read the tree
// and the prompts, but must not ask for hashes. SharedTree returns nil without ShareTrees.
func (w *Workload) SharedTree(traceBlock, block int, wrap bool) (*prompt.Tree, *prompt.List) {
	t := w.trees
	if t == nil || len(t.turns) != len(w.Turns) || &t.turns[0] != &w.Turns[0] {
		return nil, nil
	}
	key := treeKey{traceBlock, block, wrap}
	t.mu.Lock()
	get := t.all[key]
	if get == nil {
		get = sync.OnceValues(func() (*prompt.Tree, *prompt.List) {
			tree := prompt.NewTree(traceBlock, block, prompt.Options{Wrap: wrap, Joined: true})
			return tree, Intern(w, tree)
		})
		t.all[key] = get
	}
	t.mu.Unlock()
	return get()
}
