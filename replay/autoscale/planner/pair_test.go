package planner

import (
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/scheduler"
)

// fitLiterally is fit by the rules of docs/rules/router.md "Dynamo's planner": it tries every pair between the
// present and the requested pair, the best first.
func fitLiterally(b *pairBudget, now, want pair, band budget) pair {
	best, score, found := now, [5]int{}, false
	for p := min(now.p, want.p); p <= max(now.p, want.p); p++ {
		for d := min(now.d, want.d); d <= max(now.d, want.d); d++ {
			n := pair{p, d}
			if p < b.least.p || d < b.least.d || !b.allows(n, band) {
				continue
			}
			if isOpposing(now, want) && (p == now.p) != (d == now.d) {
				continue
			}
			moved, asked := pair{measureGap(p, now.p), measureGap(d, now.d)}, pair{measureGap(want.p, now.p), measureGap(want.d, now.d)}
			s := [5]int{measureGap(p, want.p) + measureGap(d, want.d), measureGap(moved.p*asked.d, moved.d*asked.p), -moved.p - moved.d, p, d}
			if !found || isBefore(s, score) {
				best, score, found = n, s, true
			}
		}
	}
	return best
}

// TestFitIsLiteral compares the nearest pair within the budget with a search of all pairs.
func TestFitIsLiteral(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	moved := 0
	for i := range 20000 {
		draw := func() pair { return pair{r.IntN(12), r.IntN(12)} }
		b := &pairBudget{budget{-1, -1}, pair{1 + r.IntN(4), 1 + r.IntN(4)}, pair{r.IntN(3), r.IntN(3)}}
		now, want, band := draw(), draw(), budget{r.IntN(40) - 10, r.IntN(50) - 5}
		got, literal := b.fit(now, want, band), fitLiterally(b, now, want, band)
		if got != literal {
			t.Fatalf("%d: from %v to %v of %v GPUs, at least %v, within %v: %v, must be %v", i, now, want, b.gpus, b.least, band, got, literal)
		}
		if got != now && got != want {
			moved++
		}
	}
	if moved < 1000 {
		t.Errorf("%d of 20000 in between, must be at least 1000", moved)
	}
}

// TestPairWithoutBudgetIsTwoPlanners checks that two pools without a budget are planned as separate pools if they
// never change at the same time.
func TestPairWithoutBudgetIsTwoPlanners(t *testing.T) {
	acts := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 8))
		c, _, e := drawPlanner(r)
		c.Target, c.Throughput, c.Load = Targets()[r.IntN(3)], false, true
		c.MaxGPUBudget, c.MinGPUBudget = -1, -1
		x, err := NewPair(&c, e, e)
		if err != nil {
			t.Fatal(err)
		}
		var own [2]*Planner
		for half, role := range []scheduler.Role{scheduler.Prefill, scheduler.Decode} {
			if own[half], err = New(&c, role, e); err != nil {
				t.Fatal(err)
			}
		}
		ready := [2]int{1 + r.IntN(4), 1 + r.IntN(4)}
		for tick := range 30 {
			var views [2]View
			for half, role := range []scheduler.Role{scheduler.Prefill, scheduler.Decode} {
				views[half] = View{Ready: ready[half], Expected: ready[half]}
				load := r.Float64()
				for w := range ready[half] {
					views[half].Passes = append(views[half].Passes, drawPass(r, w, role, load))
				}
			}
			p, d, ok := x.Tick(5*float64(tick), &views[0], &views[1], Traffic{})
			if !ok {
				p, d = ready[0], ready[1]
			}
			for half, got := range []int{p, d} {
				want, wants := own[half].Tick(5*float64(tick), &views[half], Traffic{})
				if !wants {
					want = ready[half]
				}
				if got != want {
					t.Fatalf("seed %d, tick %d, pool %d: %d workers, must be %d (%s)", seed, tick, half, got, want, own[half].Why())
				}
				if got != ready[half] {
					acts++
				}
				ready[half] = got
			}
		}
	}
	if acts < 1000 {
		t.Errorf("%d acts, must be at least 1000", acts)
	}
}
