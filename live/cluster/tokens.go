package cluster

import (
	"cmp"
	"math"
	"slices"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// tokens generates the prompts of a workload: each token of a block has the number of the block's hash id. Prompts
// that share blocks therefore share tokens.
type tokens struct {
	workload *loadgen.Workload
	tree     *prompt.Tree
	prompts  *prompt.List // prompts by index of the turn
	numbers  map[uint64]uint32
}

// newTokens returns the tokens for the requests of w.
func newTokens(w *loadgen.Workload) *tokens {
	block := cmp.Or(w.TraceBlock, 64)
	t := &tokens{workload: w, tree: prompt.NewTree(block, block, prompt.Options{})}
	t.prompts = loadgen.Intern(w, t.tree)
	great := func(turn loadgen.Turn) bool {
		return slices.ContainsFunc(turn.IDs, func(id uint64) bool { return id > math.MaxUint32 })
	}
	if slices.ContainsFunc(w.Turns, great) {
		t.numberIDs(w)
	}
	return t
}

// numberIDs numbers the hash ids in the order of their first occurrence. numberIDs is used if the ids exceed 32 bits.
func (t *tokens) numberIDs(w *loadgen.Workload) {
	t.numbers = make(map[uint64]uint32)
	for i := range w.Turns {
		for _, id := range w.Turns[i].IDs {
			if _, known := t.numbers[id]; !known {
				t.numbers[id] = uint32(len(t.numbers))
			}
		}
	}
}

// promptOf returns the prompt of q. promptOf is safe for concurrent use.
func (t *tokens) promptOf(q *sim.Request) []uint32 {
	turn := t.workload.Sessions[q.Session].First
	for range q.Turn {
		turn = t.workload.Turns[turn].Next
	}
	whole := t.prompts.At(int(turn))
	wide := t.tree.AppendTokens(&whole, q.InputTokens, make([]uint64, 0, q.InputTokens))
	narrow := make([]uint32, len(wide))
	for i, id := range wide {
		narrow[i] = uint32(id)
		if n, ok := t.numbers[id]; ok {
			narrow[i] = n
		}
	}
	return narrow
}
