package cluster

import (
	"math"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// tokens makes the prompts of a workload of tokens: each token of a block has the
// number of its hash id, so that prompts that share blocks share tokens.
type tokens struct {
	tree    *prompt.Tree
	prompts *prompt.List // by turn
	first   []int32      // turn that a session begins with
	next    []int32      // turn after a turn
	numbers map[uint64]uint32
}

// newTokens prepares for the requests of w.
func newTokens(w *loadgen.Workload) *tokens {
	block := w.TraceBlock
	if block == 0 {
		block = 64
	}
	t := &tokens{tree: prompt.NewTree(block, block, prompt.Options{})}
	t.prompts = loadgen.Intern(w, t.tree)
	for i := range w.Sessions {
		t.first = append(t.first, w.Sessions[i].First)
	}
	great := false
	for i := range w.Turns {
		t.next = append(t.next, w.Turns[i].Next)
		for _, id := range w.Turns[i].IDs {
			great = great || id > math.MaxUint32
		}
	}
	if great {
		t.numberIDs(w)
	}
	return t
}

// numberIDs gives the hash ids numbers in the order in which they come first, where
// they do not fit into 32 bits.
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

// promptOf is the prompt of q. Any goroutine may ask.
func (t *tokens) promptOf(q *sim.Request) []uint32 {
	turn := t.first[q.Session]
	for range q.Turn {
		turn = t.next[turn]
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
