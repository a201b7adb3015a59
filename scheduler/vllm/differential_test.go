package vllm_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// drawn is a random engine with requests for it.
type drawn struct {
	cfg      vllm.Config
	arrivals []schedulertest.Arrival
}

// draw draws an engine with the given rules; most engines have few resources.
func draw(seed uint64, rules vllm.Rules) drawn {
	rng := rand.New(rand.NewPCG(seed, 5))
	block, planner := 2<<rng.IntN(3), seed%4 == 0
	d := drawn{cfg: vllm.Config{
		Tree: prompt.NewTree(block*(1+rng.IntN(2)), block, prompt.Options{}), BlockTokens: block,
		Settings: vllm.Settings{
			MaxSeqs: rng.IntN(9), MaxBatchedTokens: block + rng.IntN(40), Rules: rules, ChunkedPrefill: rng.IntN(4) > 0,
			Preemption: vllm.Preemption(rng.IntN(2)), Scheduling: vllm.Policy(seed / 2 % 2), PrefillInterval: max(0, int(seed/4%8)-3),
		},
		PrefixCaching: rng.IntN(5) > 0, Planner: planner, Role: scheduler.Role(max(0, rng.IntN(6)-3)),
		Transfer: scheduler.Transfer{GBPerSecond: 1, BytesPerToken: 1000},
		Clock: timing.Clock{Speedup: 1, DecodeSpeedup: 1, Model: &timing.Parameters{
			Base: 0.01, Token: 1e-4, Context: 1e-5, Mixed: 2e-5, Pair: 1e-6, Request: 1e-4,
		}},
	}}
	d.cfg.Rules.OwnInterval = true
	if rng.IntN(3) == 0 || !rules.MixedStep {
		d.cfg.Clock.Model = timing.Polynomial{}
	}
	if rules.LongPrefillTokens > 0 {
		d.cfg.Rules.LongPrefillTokens = 1 + rng.IntN(3*block)
	}
	at, largest := sim.Time(0), 0
	for id := range 1 + rng.IntN(14) {
		if rng.IntN(2) == 0 {
			at += sim.Time(rng.IntN(400)) / 8
		}
		r := &sim.Request{ID: sim.RequestID(id), InputTokens: 1 + rng.IntN(6*block), OutputTokens: 1 + rng.IntN(4*block)}
		if !d.cfg.ChunkedPrefill {
			r.InputTokens = 1 + rng.IntN(max(1, d.cfg.MaxBatchedTokens/2))
			r.OutputTokens = 1 + rng.IntN(max(1, d.cfg.MaxBatchedTokens/2))
		}
		ids := make([]uint64, 24)
		for i := range ids {
			ids[i] = uint64(rng.IntN(2))
		}
		r.Arrived, r.Priority = at, int32(rng.IntN(3))
		r.Prompt = d.cfg.Tree.Add(ids, r.InputTokens)
		if rng.IntN(5) == 0 {
			r.Prompt = prompt.Prompt{Seed: int32(id + 1), Blocks: int32(r.InputTokens / block)}
		}
		d.arrivals = append(d.arrivals, schedulertest.Arrival{At: at, Request: r})
		largest = max(largest, r.InputTokens+r.OutputTokens)
	}
	d.cfg.Blocks = largest/block + 2 + rng.IntN(12)
	return d
}

// fate counts the events of a differential run.
type fate struct{ passes, preempted, reused, cut, stalled, accepted, rejected int }

// compare runs a core and its twin side by side.
func (d *drawn) compare(core, plain scheduler.Core, seen *fate) error {
	arrivals, now := d.arrivals, sim.Time(0)
	got, want := scheduler.Pass{Detail: new(scheduler.Detail)}, scheduler.Pass{Detail: new(scheduler.Detail)}
	for passes := 0; passes < 3000; passes++ {
		for len(arrivals) > 0 && arrivals[0].At <= now {
			core.Submit(arrivals[0].Request)
			plain.Submit(arrivals[0].Request)
			arrivals = arrivals[1:]
		}
		if core.Load() != plain.Load() {
			return fmt.Errorf("at %v: load is %d, want %d", now, core.Load(), plain.Load())
		}
		if core.Load() == 0 {
			if len(arrivals) == 0 {
				return nil
			}
			now = arrivals[0].At
			continue
		}
		err, wantErr := core.Step(now, now, &got), plain.Step(now, now, &want)
		if (err == nil) != (wantErr == nil) {
			return fmt.Errorf("at %v: error %v, want %v", now, err, wantErr)
		}
		if err != nil {
			seen.stalled++
			return nil
		}
		a, b := schedulertest.Single(&got, 0), schedulertest.Single(&want, 0)
		if !reflect.DeepEqual(a, b) {
			return fmt.Errorf("at %v:\n got %+v\nwant %+v", now, a, b)
		}
		if x, y := fmt.Sprintf("%+v", *got.Detail), fmt.Sprintf("%+v", *want.Detail); x != y {
			return fmt.Errorf("at %v:\n got %s\nwant %s", now, x, y)
		}
		if x, y := core.Snapshot(&got), plain.Snapshot(&want); d.cfg.Planner && x != y {
			return fmt.Errorf("at %v: a planner sees\n got %+v\nwant %+v", now, x, y)
		}
		if x, y := progress(core), progress(plain); !maps.Equal(x, y) {
			return fmt.Errorf("at %v: requests are at %v, want %v", now, x, y)
		}
		seen.note(&d.cfg, &got)
		now = got.End
	}
	return nil // requests preempt each other forever
}

// token is the number and the time of a request's latest token.
type token struct {
	number int
	at     sim.Time
}

// progress returns the latest tokens of the requests on a core.
func progress(core scheduler.Core) map[sim.RequestID]token {
	all := make(map[sim.RequestID]token)
	core.Progress(func(id sim.RequestID, tokens int, last sim.Time) { all[id] = token{tokens, last} })
	return all
}

func (f *fate) note(cfg *vllm.Config, p *scheduler.Pass) {
	f.passes++
	f.preempted += p.Preempted
	f.accepted += p.Accepted
	f.rejected += p.Drafts - p.Accepted
	for _, a := range p.Admitted {
		f.reused += a.Reused
	}
	if p.PrefillTokens == cfg.MaxBatchedTokens {
		f.cut++
	}
}

// The core equals its twin pass by pass: with all of vLLM's own rules, with any one rule missing, and with any single
// rule.
func TestDifferential(t *testing.T) {
	cases := long.Cases(uint64(50), 250)
	rules := flips()
	names := make([]string, 0, len(rules))
	for name := range rules {
		if name != "none" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		var seen fate
		n := cases
		if name == "all" {
			n *= 5
		}
		for seed := range n {
			d := draw(seed, rules[name])
			if err := d.compare(build(t, d.cfg), newTwin(d.cfg), &seen); err != nil {
				t.Fatalf("%s, seed %d: %+v\n%v", name, seed, d.cfg, err)
			}
		}
		if seen.preempted < int(n)/2 || seen.reused < int(n) || seen.cut < int(n)/4 {
			t.Errorf("%s: %+v in %d cases, want more of everything", name, seen, n)
		}
	}
}
