package reference

import (
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/sim/prompt"
)

// The table of nodes is a map: whatever comes and leaves, in dense ranges of ids
// or every so many.
func TestNodesAreAMap(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 11))
		stride := prompt.NodeID(1 + r.IntN(4)*r.IntN(200))
		table, want := newNodes(minNodes), map[prompt.NodeID]int32{}
		for i := range 4000 {
			n := prompt.NodeID(i/8+r.IntN(200)) * stride
			if resident, ok := want[n]; ok != (table.find(n).resident > 0) || table.find(n).resident != resident {
				t.Fatalf("seed %d, stride %d, step %d: node %d has %d blocks, want %d", seed, stride, i, n, table.find(n).resident, resident)
			}
			if r.IntN(2) == 0 {
				want[n] = int32(1 + r.IntN(9))
				table.at(n).resident = want[n]
				continue
			}
			if _, ok := want[n]; ok {
				place := table.place(n)
				table.table[place].resident = 0
				table.forget(place)
				delete(want, n)
			}
		}
		if table.used != len(want) || 2*table.used > len(table.table) {
			t.Fatalf("seed %d: %d nodes on %d places, want %d", seed, table.used, len(table.table), len(want))
		}
		for n, resident := range want {
			if s := table.find(n); s.id != n || s.resident != resident {
				t.Fatalf("seed %d: node %d is %+v, want %d blocks", seed, n, *s, resident)
			}
		}
	}
}
