package router

import (
	"slices"
	"testing"

	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// The cheapest candidate is the first of all in order of cost, then id, and the
// second comes after it, however many are alike.
func TestCheapestTwin(t *testing.T) {
	r := sim.NewRand(1, "cheapest")
	for round := range 2000 {
		config := DefaultConfig()
		config.OverlapScoreCredit = float64(r.IntN(5)) / 4
		config.PrefillLoadScale = float64(r.IntN(4)) / 3
		config.TrackPrefillTokens = r.IntN(8) > 0
		workers := 1 + r.IntN(100)
		kv, err := NewKV(Options{Config: config, Workers: workers, Tree: prompt.NewTree(48, 48, prompt.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		most := 1 + r.IntN(4) // few values make many ties
		for w := range workers {
			if workers > 1 && r.IntN(10) == 0 && len(kv.workers.ids) > 1 {
				if err := kv.RemoveWorker(sim.WorkerID(w)); err != nil {
					t.Fatal(err)
				}
			}
			kv.prefills.tokens[w] = int64(100 * r.IntN(most))
			kv.loads.blocks[w] = int64(r.IntN(most))
			kv.overlap.by[w] = int32(r.IntN(most))
			kv.depth.by[w] = int32(r.IntN(most))
		}
		j := job{tokens: int64(1 + r.IntN(400)), blocks: 8}
		order := slices.Clone(kv.workers.ids)
		cost := func(w sim.WorkerID) float64 { return kv.cost(j, kv.state(w, kv.prefills.tokens)) }
		slices.SortStableFunc(order, func(a, b sim.WorkerID) int {
			switch x, y := cost(a), cost(b); {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		want := choice{worker: order[0], cost: cost(order[0]), second: None}
		if len(order) > 1 {
			want.second, want.secondCost = order[1], cost(order[1])
		}
		if got := kv.cheapest(j, kv.prefills.tokens); got != want {
			t.Fatalf("round %d, %d candidates: %+v, want %+v", round, len(order), got, want)
		}
	}
}
