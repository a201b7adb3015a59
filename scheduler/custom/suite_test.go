package custom_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/custom"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// whims makes random valid plans: requests in any order, chunks of any size, preemptions without a reason, and waits.
type whims struct{ rng *rand.Rand }

func (e *whims) Plan(p *custom.Plan) {
	for _, all := range [][]*custom.Request{p.Running, p.Waiting} {
		e.rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	}
	if e.rng.IntN(12) == 0 {
		p.WaitUntil(p.Now + sim.Time(1+e.rng.IntN(40))/8)
		return
	}
	here := slices.Clone(p.Waiting)
	for _, r := range p.Running {
		if e.rng.IntN(20) == 0 {
			p.Preempt(r.ID)
		} else {
			here = append(here, r)
		}
	}
	planned := 0
	for _, r := range here {
		n := 1 + e.rng.IntN(r.Left()-p.Cached(r.ID))
		if e.rng.IntN(3) > 0 && p.Fits(r.ID, n) {
			p.Compute(r.ID, n)
			planned++
		}
	}
	if planned == 0 {
		if len(p.Running) > 0 && !slices.ContainsFunc(p.Running, func(r *custom.Request) bool { return r.Blocks == 0 }) {
			p.Preempt(p.Running[0].ID)
		}
		p.WaitUntil(p.Now + 1)
	}
}

// newCore returns a core for the setup of the suite with an engine.
func newCore(s schedulertest.Setup, engine func(custom.Options) custom.Engine) scheduler.Core {
	o := custom.Options{Blocks: s.Blocks, BlockTokens: s.BlockTokens, MaxSeqs: s.MaxSeqs, MaxBatchedTokens: s.MaxBatchedTokens, ChunkedPrefill: true, PrefixCaching: true}
	return custom.New(custom.Config{Options: o, Clock: timing.Clock{Model: timing.Polynomial{}, Speedup: 1, DecodeSpeedup: 1}, Tree: s.Tree, Told: true}, engine(o))
}

func newFirstCome(s schedulertest.Setup) scheduler.Core {
	return newCore(s, func(o custom.Options) custom.Engine { return &custom.FirstCome{Options: o} })
}

func newWhims(s schedulertest.Setup) scheduler.Core {
	return newCore(s, func(custom.Options) custom.Engine { return &whims{rand.New(rand.NewPCG(1, 2))} })
}

func TestCoreHoldsTheContract(t *testing.T) {
	schedulertest.Run(t, newFirstCome)
	schedulertest.RunCancel(t, true, newFirstCome)
}

// For random plans, tokens are conserved and the blocks of the pool are consistent.
func TestAnyPlanIsCarriedOut(t *testing.T) {
	schedulertest.RunCancel(t, false, newWhims)
}

// A pass allocates no memory after all slices have reached their size.
func TestPassesDoNotAllocate(t *testing.T) {
	if invariant.Enabled {
		t.Skip("checks allocate")
	}
	tree := prompt.NewTree(16, 16, prompt.Options{})
	core := newFirstCome(schedulertest.Setup{Tree: tree, BlockTokens: 16, Blocks: 4000, MaxSeqs: 16, MaxBatchedTokens: 512})
	for id := range 40 {
		r := &sim.Request{ID: sim.RequestID(id), InputTokens: 64, OutputTokens: 1500}
		r.Prompt = tree.Add([]uint64{1, 2, 3, uint64(id)}, 64)
		core.Submit(r)
	}
	now, p := sim.Time(0), new(scheduler.Pass)
	step := func() {
		if err := core.Step(now, now, p); err != nil {
			t.Fatal(err)
		}
		now = p.End
	}
	for range 400 {
		step()
	}
	if n := testing.AllocsPerRun(200, step); n > 0.5 { // the table of block names grows sometimes
		t.Errorf("%v allocations a pass, want none", n)
	}
}
