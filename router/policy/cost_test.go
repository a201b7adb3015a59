package policy

import (
	"slices"
	"testing"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// The cheapest candidate is the first of all in order of cost, then id, and the
// second comes after it, however many are alike.
func TestCheapestTwin(t *testing.T) {
	r := sim.NewRand(1, "cheapest")
	for round := range 2000 {
		config := router.DefaultConfig()
		config.OverlapScoreCredit = float64(r.IntN(5)) / 4
		config.PrefillLoadScale = float64(r.IntN(4)) / 3
		config.TrackPrefillTokens = r.IntN(8) > 0
		workers := 1 + r.IntN(100)
		p := &kv{config: config, blockTokens: 48}
		c := &router.Candidates{
			Tokens: make([]int64, workers), Blocks: make([]int64, workers),
			Overlap: make([]int32, workers), Active: make([]int32, workers),
		}
		most := 1 + r.IntN(4) // few values make many ties
		for w := range workers {
			if w == 0 || r.IntN(10) > 0 {
				c.Workers = append(c.Workers, sim.WorkerID(w))
			}
			c.Tokens[w] = int64(100 * r.IntN(most))
			c.Blocks[w] = int64(r.IntN(most))
			c.Overlap[w] = int32(r.IntN(most))
			c.Active[w] = int32(r.IntN(most))
		}
		j := job{tokens: int64(1 + r.IntN(400)), blocks: 8}
		order := slices.Clone(c.Workers)
		cost := func(w sim.WorkerID) float64 { return p.costOn(j, stateOf(w, c)) }
		slices.SortStableFunc(order, func(a, b sim.WorkerID) int {
			switch x, y := cost(a), cost(b); {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		want := router.Choice{Worker: order[0], Cost: cost(order[0]), Second: router.None}
		if len(order) > 1 {
			want.Second, want.SecondCost = order[1], cost(order[1])
		}
		if got := p.findCheapest(j, c); got != want {
			t.Fatalf("round %d, %d candidates: %+v, want %+v", round, len(order), got, want)
		}
	}
}
