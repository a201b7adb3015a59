package policy

import (
	"testing"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// TestPicker checks that the highest sum of weighted scores wins. A cached prompt outweighs a shorter queue, and a
// little more free cache only decides between equals.
func TestPicker(t *testing.T) {
	p := NewPicker(Picker{Scorers: []Scorer{
		{Kind: PrecisePrefix, Weight: 3}, {Kind: FreeKV, Weight: 2}, {Kind: ShortQueue, Weight: 2},
	}, Draw: MaxScore}, Options{})
	for i, c := range []struct {
		overlap []int32
		metrics []router.Metrics
		want    sim.WorkerID
	}{
		{[]int32{0, 8, 0}, []router.Metrics{{}, {Waiting: 3}, {}}, 1},
		{[]int32{0, 8, 7}, []router.Metrics{{Waiting: 4}, {Waiting: 9}, {}}, 2},
		{[]int32{8, 8, 8}, []router.Metrics{{KV: 0.3}, {KV: 0.2}, {KV: 0.25}}, 1},
		{[]int32{0, 0, 0}, []router.Metrics{{Waiting: 2}, {Waiting: 2}, {Waiting: 1}}, 2},
	} {
		got := p.Choose(&sim.Request{Prompt: prompt.Prompt{Blocks: 8}}, &router.Candidates{Workers: []sim.WorkerID{0, 1, 2}, Overlap: c.overlap, Metrics: c.metrics})
		if got.Worker != c.want {
			t.Errorf("case %d: worker %d, want %d", i, got.Worker, c.want)
		}
	}
	seen := map[sim.WorkerID]bool{}
	for range 50 {
		seen[p.Choose(&sim.Request{Prompt: prompt.Prompt{Blocks: 8}}, &router.Candidates{Workers: []sim.WorkerID{0, 1}, Overlap: []int32{0, 0}, Metrics: make([]router.Metrics, 2)}).Worker] = true
	}
	if len(seen) != 2 {
		t.Errorf("of equals %v are taken, want both", seen)
	}
}

// TestPickerTakesNoMemory checks that a warm picker allocates no memory for a choice.
func TestPickerTakesNoMemory(t *testing.T) {
	tree := prompt.NewTree(10, 10, prompt.Options{})
	var all []Scorer
	for _, k := range ScorerKinds() {
		all = append(all, Scorer{Kind: k, Weight: 1, Prefix: Prefix{Speculative: 10, Capacity: 8}, Full: 1})
	}
	var filters []Filter
	for _, k := range FilterKinds() {
		filters = append(filters, Filter{Kind: k, Sticky: 0.5, Explore: 0.5, Slower: 1, Throughput: 1, Match: ApproximatePrefix, Tokens: 9, Queue: 1, KV: 1})
	}
	p := NewPicker(Picker{Filters: filters, Scorers: all, Draw: WeightedRandom, InFlight: &InFlight{Match: PrecisePrefix}}, Options{Tree: tree, BlockTokens: 10})
	var requests []*sim.Request
	for i := range uint64(20) {
		requests = append(requests, &sim.Request{Prompt: tree.Add([]uint64{1, i, i + 1}, 30)})
	}
	c := router.Candidates{Workers: []sim.WorkerID{0, 1}, Overlap: make([]int32, 2), Running: make([]int32, 2), Tokens: make([]int64, 2), Metrics: make([]router.Metrics, 2)}
	i := 0
	choose := func() {
		c.Now++
		p.Choose(requests[i%len(requests)], &c)
		i++
	}
	for range 200 {
		choose()
	}
	if n := testing.AllocsPerRun(200, choose); n > 0 {
		t.Errorf("%v allocations a choice, want none", n)
	}
}
