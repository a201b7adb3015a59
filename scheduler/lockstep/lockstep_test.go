package lockstep_test

import (
	"reflect"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/lockstep"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// clock returns a clock with durations that depend on every quantity of a pass.
func clock() timing.Clock {
	return timing.Clock{Speedup: 1, DecodeSpeedup: 1, Model: &timing.Parameters{
		Base: 0.001, Weights: 0.01, Token: 1e-5, Pair: 1e-8, Request: 1e-5, Context: 1e-6, Mixed: 2e-6, MixedBase: 0.002,
	}}
}

// engine returns a vLLM core for s.
func engine(s schedulertest.Setup) *vllm.Core {
	core, err := vllm.New(vllm.Config{
		Settings: vllm.Settings{MaxSeqs: s.MaxSeqs, MaxBatchedTokens: s.MaxBatchedTokens, ChunkedPrefill: true, Rules: releases.Rules019()},
		Blocks:   s.Blocks, BlockTokens: s.BlockTokens,
		PrefixCaching: true, Clock: clock(), Tree: s.Tree,
	})
	if err != nil {
		panic(err)
	}
	return core
}

// worker returns a worker with the given number of ranks.
func worker(s schedulertest.Setup, ranks int) scheduler.Core {
	all := make([]lockstep.Rank, ranks)
	for i := range all {
		all[i] = engine(s)
	}
	return lockstep.New(all, lockstep.Options{Clock: clock()})
}

// TestSuite runs the suite for all cores on workers of several ranks.
func TestSuite(t *testing.T) {
	for _, ranks := range []int{1, 2, 5} {
		schedulertest.Run(t, func(s schedulertest.Setup) scheduler.Core { return worker(s, ranks) })
	}
}

// TestCancel cancels random requests.
func TestCancel(t *testing.T) {
	schedulertest.RunCancel(t, false, func(s schedulertest.Setup) scheduler.Core { return worker(s, 3) })
}

// request returns a request with a unique prompt.
func request(tree *prompt.Tree, id, input, output int) *sim.Request {
	var ids []uint64
	for i := range (input + 15) / 16 {
		ids = append(ids, uint64(1000*(id+1)+i))
	}
	return &sim.Request{ID: sim.RequestID(id), InputTokens: input, OutputTokens: output, Prompt: tree.Add(ids, input)}
}

// TestOneRankIsPlain compares a worker of one rank with the engine, pass by pass.
func TestOneRankIsPlain(t *testing.T) {
	s := schedulertest.Setup{Tree: prompt.NewTree(16, 16, prompt.Options{}), Blocks: 40, BlockTokens: 16, MaxSeqs: 4, MaxBatchedTokens: 64}
	one, plain := worker(s, 1), engine(s)
	for id := range 6 {
		one.Submit(request(s.Tree, id, 30+20*id, 5+id))
		plain.Submit(request(s.Tree, id, 30+20*id, 5+id))
	}
	var a, b scheduler.Pass
	for now := sim.Time(0); plain.Load() > 0; now = b.End {
		if err := one.Step(now, now, &a); err != nil {
			t.Fatal(err)
		}
		if err := plain.Step(now, now, &b); err != nil {
			t.Fatal(err)
		}
		if a.End != b.End || a.Tokens != b.Tokens || !reflect.DeepEqual(a.Marks, b.Marks) || !reflect.DeepEqual(a.Admitted, b.Admitted) || one.Load() != plain.Load() {
			t.Fatalf("at %v: %+v, want %+v", now, a, b)
		}
	}
}

// TestRanksWait runs a long prompt on one rank and a short answer on the other rank. All passes last as long as the
// passes of the prompt.
func TestRanksWait(t *testing.T) {
	s := schedulertest.Setup{Tree: prompt.NewTree(16, 16, prompt.Options{}), Blocks: 400, BlockTokens: 16, MaxSeqs: 4, MaxBatchedTokens: 512}
	pair, alone := worker(s, 2), worker(s, 1)
	pair.Submit(request(s.Tree, 0, 512, 2))
	pair.Submit(request(s.Tree, 1, 16, 2)) // goes to the second rank, because the first has a request
	alone.Submit(request(s.Tree, 1, 16, 2))
	var both, single scheduler.Pass
	if err := pair.Step(0, 0, &both); err != nil {
		t.Fatal(err)
	}
	if err := alone.Step(0, 0, &single); err != nil {
		t.Fatal(err)
	}
	if both.PrefillTokens != 528 || len(both.Marks) != 2 {
		t.Errorf("%d prompt tokens and %d first tokens in a pass, want 528 and 2: both prompts at once", both.PrefillTokens, len(both.Marks))
	}
	want := (&timing.Parameters{Base: 0.001, Weights: 0.01, Token: 1e-5, Pair: 1e-8, Request: 1e-5, Context: 1e-6, Mixed: 2e-6, MixedBase: 0.002}).
		Step(&timing.Step{Tokens: 512, Requests: 1, Pairs: 512 * 512 / 2})
	if got := float64(both.End); got < 0.99*want || got > 1.01*want || both.End <= single.End {
		t.Errorf("the pass takes %v ms, want %v, more than the %v of the short prompt alone", got, want, single.End)
	}
}
