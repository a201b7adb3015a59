package policy

import (
	"cmp"
	"slices"
	"testing"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
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
		if got, want := p.findCheapest(j, c), p.findPlainly(j, c); got != want {
			t.Fatalf("round %d, %d candidates: %+v, want %+v", round, len(c.Workers), got, want)
		}
	}
}

// findPlainly is findCheapest from the costs of all candidates.
func (p *kv) findPlainly(j job, c *router.Candidates) router.Choice {
	order := slices.Clone(c.Workers)
	cost := func(w sim.WorkerID) float64 { return p.costOn(j, stateOf(w, c)) }
	slices.SortStableFunc(order, func(a, b sim.WorkerID) int { return cmp.Compare(cost(a), cost(b)) })
	choice := router.Choice{Worker: order[0], Cost: cost(order[0]), Second: router.None}
	if len(order) > 1 {
		choice.Second, choice.SecondCost = order[1], cost(order[1])
	}
	return choice
}

// checkedKV is a kv that verifies each choice, and the bounds of groups.
type checkedKV struct {
	*kv
	t       *testing.T
	skipped int // groups that one bound ruled out
}

func (p *checkedKV) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	got := p.kv.Choose(q, c)
	j := job{tokens: int64(q.InputTokens), blocks: int64(q.Prompt.Blocks)}
	if want := p.findPlainly(j, c); got != want {
		p.t.Fatalf("request %d, %d candidates: %+v, want %+v", q.ID, len(c.Workers), got, want)
	}
	if !c.HasGroups() {
		p.t.Fatal("no groups")
	}
	for _, w := range c.Workers {
		g := c.Group(int(w) / router.GroupSize)
		if c.Tokens[w] < g.Tokens || c.Blocks[w] < g.Blocks || c.Overlap[w] > g.Overlap || c.Active[w] > g.Active {
			p.t.Fatalf("worker %d: %+v is outside of %+v", w, stateOf(w, c), g)
		}
		if int(w)%router.GroupSize == 0 && p.leastOn(j, g) >= got.SecondCost {
			p.skipped++
		}
	}
	return got
}

// With hundreds of workers that join and leave, the choice equals that from the costs of all workers, with immediate and
// with delayed loads.
func TestCheapestInGroups(t *testing.T) {
	for _, late := range []sim.Time{0, 40} {
		r := sim.NewRand(7, "groups")
		tree := prompt.NewTree(64, 64, prompt.Options{})
		inner, err := newKV(Options{Config: router.DefaultConfig(), BlockTokens: 64})
		if err != nil {
			t.Fatal(err)
		}
		p := &checkedKV{kv: inner.(*kv), t: t}
		o := router.Options{Policy: p, Workers: 230, Tree: tree}
		if late > 0 {
			o.Signals.Loads = &router.Age{Delay: late}
		}
		d := router.New(o)
		var running []sim.RequestID
		away := router.None
		for i := range 3000 {
			now := sim.Time(i)
			ids := make([]uint64, 1+r.IntN(12))
			for k := range ids {
				ids[k] = uint64(k + 100*r.IntN(1+k))
			}
			tokens := 64 * len(ids)
			q := &sim.Request{ID: sim.RequestID(i), InputTokens: tokens, Prompt: tree.Add(ids, tokens)}
			placed, err := d.Route(now, q, nil)
			if err != nil || len(placed) != 1 {
				t.Fatalf("placed %v, error %v", placed, err)
			}
			var pass scheduler.Pass
			for _, n := range q.Prompt.Nodes {
				pass.KV = append(pass.KV, scheduler.KVChange{Node: n, Blocks: 1})
			}
			if err := d.Observe(placed[0].Worker, &pass); err != nil {
				t.Fatal(err)
			}
			for running = append(running, q.ID); len(running) > 600 || len(running) > 0 && r.IntN(3) == 0; {
				k := r.IntN(len(running))
				if _, err := d.PrefillDone(now, running[k], nil); err != nil {
					t.Fatal(err)
				}
				if r.IntN(2) == 0 {
					if _, err := d.Finished(now, running[k], nil); err != nil {
						t.Fatal(err)
					}
					running[k] = running[len(running)-1]
					running = running[:len(running)-1]
				}
			}
			switch {
			case i%50 == 0 && away == router.None:
				away = sim.WorkerID(r.IntN(230))
				err = d.RemoveWorker(away)
			case i%50 == 25:
				err = d.AddWorker(away)
				away = router.None
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if p.skipped == 0 {
			t.Error("no group was ruled out by its bounds")
		}
	}
}
