package loadgen_test

import (
	"sync"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim/prompt"
)

// TestSharedTree checks that replays of a workload that shares its trees get the same tree and prompts if their block
// size is the same.
func TestSharedTree(t *testing.T) {
	w := &loadgen.Workload{}
	for i := range uint64(200) {
		w.Turns = append(w.Turns, loadgen.Turn{Next: -1, Input: int32(100 + 7*i), IDs: []uint64{i % 3, 10 + i%5, 20 + i, 300 + i}})
	}
	if tree, prompts := w.SharedTree(512, 64, false); tree != nil || prompts != nil {
		t.Fatal("a workload shares its tree without ShareTrees")
	}
	w.ShareTrees()
	var group sync.WaitGroup
	found := make([]*prompt.Tree, 8)
	for i := range found {
		group.Go(func() {
			block := []int{64, 512}[i%2]
			tree, prompts := w.SharedTree(512, block, false)
			own := prompt.NewTree(512, block, prompt.Options{Joined: true})
			want := loadgen.Intern(w, own)
			for k := range w.Turns {
				a, b := prompts.At(k), want.At(k)
				if len(a.Nodes) != len(b.Nodes) || a.Blocks != b.Blocks || tree.Len() != own.Len() {
					t.Errorf("block %d, prompt %d: %v of %d nodes, want %v of %d", block, k, a, tree.Len(), b, own.Len())
				}
			}
			found[i] = tree
		})
	}
	group.Wait()
	for i := range found {
		if found[i] != found[i%2] {
			t.Errorf("call %d made another tree", i)
		}
	}
	other := *w
	other.Turns = append([]loadgen.Turn(nil), w.Turns...)
	if tree, _ := other.SharedTree(512, 64, false); tree != nil {
		t.Error("a copy with its own turns has the tree of the original")
	}
	other.Turns = w.Turns[:100]
	if tree, _ := other.SharedTree(512, 64, false); tree != nil {
		t.Error("a copy with fewer turns has the tree of the original")
	}
}
