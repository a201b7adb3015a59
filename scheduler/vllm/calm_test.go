package vllm_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/reference"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// passes returns all passes of a replay.
func passes(t *testing.T, core scheduler.Core, arrivals []schedulertest.Arrival) []schedulertest.Step {
	t.Helper()
	var all []schedulertest.Step
	err := schedulertest.Replay(core, arrivals, schedulertest.UntilArrival, func(s schedulertest.Step) error {
		all = append(all, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// With a planner, every request is read in every pass. Without a planner the passes are the same, with little and
// much memory, small budgets and long prompts.
func TestSteadyRequestsChangeNothing(t *testing.T) {
	preempted, cut, cases := 0, 0, long.Cases(uint64(100), 400)
	for seed := range cases {
		rng := rand.New(rand.NewPCG(seed, 3))
		tree := prompt.NewTree(8, 4, prompt.Options{})
		cfg := config(schedulertest.Setup{
			Tree: tree, BlockTokens: 4, Blocks: 30 + rng.IntN(60), MaxSeqs: 1 + rng.IntN(12), MaxBatchedTokens: 3 + rng.IntN(40),
		}, releases.Rules019())
		cfg.Rules.TwoInFlight = rng.IntN(2) == 0
		cfg.Rules.LongPrefillTokens = rng.IntN(3) * 5
		cfg.Rules.MixedStep = rng.IntN(4) > 0
		cfg.Capture = scheduler.CaptureEvents
		cfg.Clock.Model = &timing.Parameters{Weights: 0.01, Token: 1e-4, Context: 1e-5, Mixed: 2e-5, Pair: 1e-6, Request: 1e-4}
		var arrivals []schedulertest.Arrival
		at := sim.Time(0)
		for id := range 30 {
			at += sim.Time(rng.IntN(60))
			ids := []uint64{uint64(rng.IntN(3)), uint64(rng.IntN(3)), uint64(id), uint64(id)}
			r := &sim.Request{ID: sim.RequestID(id), InputTokens: 1 + rng.IntN(32), OutputTokens: 1 + rng.IntN(60)}
			r.Prompt = tree.Add(ids, r.InputTokens)
			arrivals = append(arrivals, schedulertest.Arrival{At: at, Request: r})
		}
		calm := passes(t, build(t, cfg), arrivals)
		cfg.Planner = true
		restless := passes(t, build(t, cfg), arrivals)
		for i := range restless {
			preempted += restless[i].Preempted
			if restless[i].PrefillTokens == cfg.MaxBatchedTokens {
				cut++
			}
			if i >= len(calm) || !reflect.DeepEqual(calm[i], restless[i]) {
				t.Fatalf("seed %d, pass %d of %d:\n got %+v\nwant %+v", seed, i, len(restless), calm[min(i, len(calm)-1)], restless[i])
			}
		}
		if len(calm) != len(restless) {
			t.Fatalf("seed %d: %d passes, want %d", seed, len(calm), len(restless))
		}
	}
	if preempted < 100 || cut < 100 {
		t.Errorf("%d preemptions and %d full passes, want more of both", preempted, cut)
	}
}

// With all rules of the reference and enough memory, this core equals the reference's core to the last digit.
func TestReferenceRules(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 4))
		tree := prompt.NewTree(8, 4, prompt.Options{})
		cfg := config(schedulertest.Setup{
			Tree: tree, BlockTokens: 4, Blocks: 4000, MaxSeqs: 1 + rng.IntN(12), MaxBatchedTokens: 10 + rng.IntN(60),
		}, vllm.Rules{})
		var arrivals []schedulertest.Arrival
		at := sim.Time(0)
		for id := range 20 {
			at += sim.Time(rng.IntN(60))
			ids := []uint64{uint64(rng.IntN(3)), uint64(rng.IntN(3)), uint64(rng.IntN(3)), uint64(id)}
			r := &sim.Request{ID: sim.RequestID(id), InputTokens: 1 + rng.IntN(32), OutputTokens: 1 + rng.IntN(30)}
			r.Prompt = tree.Add(ids, r.InputTokens)
			arrivals = append(arrivals, schedulertest.Arrival{At: at, Request: r})
		}
		got, want := passes(t, build(t, cfg), arrivals), passes(t, reference.New(cfg), arrivals)
		if !reflect.DeepEqual(got, want) {
			for i := range want {
				if i >= len(got) || !reflect.DeepEqual(got[i], want[i]) {
					t.Fatalf("seed %d, pass %d:\n got %+v\nwant %+v", seed, i, got[min(i, len(got)-1)], want[i])
				}
			}
			t.Fatalf("seed %d: %d passes, want %d", seed, len(got), len(want))
		}
	}
}
