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

// TestCheapestTwin compares the cheapest and the second cheapest candidate with the first two of all candidates. The
// candidates are sorted by cost, then by id.
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
		most := 1 + r.IntN(4) // few different values cause many ties
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

// findPlainly is findCheapest by sorting the costs of all candidates.
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

// checkedKV is a kv that checks each choice and the bounds of rungs.
type checkedKV struct {
	*kv
	t                *testing.T
	shared, active   int // number of requests with a prefix that many workers have cached, or that runs on many workers
	beyond, searches int // number of workers on rungs that their bound excluded, and of all workers
}

func (p *checkedKV) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	got := p.kv.Choose(q, c)
	j := job{tokens: int64(q.InputTokens)}
	if p.config.TrackActiveBlocks {
		j.blocks = int64(q.Prompt.Blocks)
	}
	overlap, active, by := c.Sparse()
	if by == nil {
		p.t.Fatal("the columns are read")
	}
	plain := *c
	plain.Overlap, plain.Active = make([]int32, len(c.Tokens)), make([]int32, len(c.Tokens))
	for _, w := range c.Workers {
		plain.Overlap[w], plain.Active[w] = overlap.On(w), active.On(w)
	}
	if want := p.findPlainly(j, &plain); got != want {
		p.t.Fatalf("request %d, %d candidates: %+v, want %+v", q.ID, len(c.Workers), got, want)
	}
	s := sparsely{kv: p.kv, job: j}
	count := 0
	for rung := by.Next(0); rung >= 0; rung = by.Next(rung + 1) {
		for _, w := range c.Workers {
			if by.Workers(rung)[w/64]>>(w%64)&1 == 0 {
				continue
			}
			count++
			x := stateOf(w, &plain)
			k := s.makeKind(x.overlap, x.active)
			if rung == 0 && (x.tokens > 0 || x.blocks > 0) || p.costOn(j, x) < k.leastCost(by.Least(rung)) {
				p.t.Fatalf("worker %d, %+v costs %v, want at least %v on rung %d", w, x, p.costOn(j, x), k.leastCost(by.Least(rung)), rung)
			}
			p.searches++
			if k.leastCost(by.Least(rung)) > got.SecondCost {
				p.beyond++
			}
		}
	}
	if count != len(c.Workers) {
		p.t.Fatalf("%d workers on rungs, want %d", count, len(c.Workers))
	}
	if set, _ := overlap.Sharers(); set != nil {
		p.shared++
	}
	if set, _ := active.Sharers(); set != nil {
		p.active++
	}
	return got
}

// TestCheapestByLoad checks choices among hundreds of workers that join and leave. Each choice equals the choice from
// the costs of all workers, with immediate and delayed loads, and with any weights.
func TestCheapestByLoad(t *testing.T) {
	for round := range 24 {
		cheapestByLoad(t, round)
	}
}

func cheapestByLoad(t *testing.T, round int) {
	r := sim.NewRand(uint64(round), "ladder")
	config := router.DefaultConfig()
	if round > 1 {
		config.OverlapScoreCredit = float64(r.IntN(7)) / 4
		config.PrefillLoadScale = float64(r.IntN(7)) / 3
		config.TrackPrefillTokens = r.IntN(8) > 0
		config.TrackActiveBlocks = r.IntN(8) > 0
	}
	workers, perNode := 65+r.IntN(200), 1+7*r.IntN(2)
	tree := prompt.NewTree(64, 64/perNode, prompt.Options{})
	inner, err := newKV(Options{Config: config, BlockTokens: 64 / perNode})
	if err != nil {
		t.Fatal(err)
	}
	p := &checkedKV{kv: inner.(*kv), t: t}
	o := router.Options{Policy: p, Workers: workers, Tree: tree}
	if round%2 == 1 {
		o.Signals.Loads = &router.Age{Delay: 40}
	}
	d := router.New(o)
	most := 1 + r.IntN(4*workers) // maximum number of running requests
	var running []sim.RequestID
	away := router.None
	for i := range 1500 {
		now := sim.Time(i)
		ids := make([]uint64, 1+r.IntN(12))
		for k := range ids {
			ids[k] = uint64(k + 100*r.IntN(1+k))
		}
		tokens := 64*len(ids) - r.IntN(64)
		q := &sim.Request{ID: sim.RequestID(i), InputTokens: tokens, Prompt: tree.Add(ids, tokens)}
		placed, err := d.Route(now, q, nil)
		if err != nil || len(placed) != 1 {
			t.Fatalf("placed %v, error %v", placed, err)
		}
		var pass scheduler.Pass
		for _, n := range q.Prompt.Nodes {
			if blocks := min(tree.Size(n), q.Prompt.Blocks-tree.Start(n)); blocks > 0 {
				pass.KV = append(pass.KV, scheduler.KVChange{Node: n, Blocks: blocks})
			}
		}
		if err := d.Observe(placed[0].Worker, &pass); err != nil {
			t.Fatal(err)
		}
		for running = append(running, q.ID); len(running) > most || len(running) > 0 && r.IntN(3) == 0; {
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
			away = sim.WorkerID(r.IntN(workers))
			err = d.RemoveWorker(away)
		case i%50 == 25:
			err = d.AddWorker(away)
			away = router.None
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if round < 2 && (p.shared < 300 || p.active < 100 || p.beyond < p.searches/3) {
		t.Errorf("%d requests with blocks that many workers cache, %d with active ones, %d of %d workers ruled out", p.shared, p.active, p.beyond, p.searches)
	}
}
