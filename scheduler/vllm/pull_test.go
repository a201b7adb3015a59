package vllm_test

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
)

// newDecode returns a decode worker that reads KV caches, by the rules of 0.33, and a request for it.
func newDecode(t *testing.T) (*vllm.Core, *sim.Request) {
	t.Helper()
	cfg, tree := small(func(c *vllm.Config) {
		c.Rules, c.Role, c.Pull, c.RankedHost = releases.Rules033(), scheduler.Decode, true, true
		c.Blocks = 100
	})
	core, err := vllm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return core, request(tree, 0, 3*cfg.BlockTokens, 4, 1, 2, 3)
}

// If a request leaves after its KV cache was read and before a pass reports the read, the report is dropped. A new
// request with the same id reads its own blocks, and the worker waits for no transfer.
func TestTransferOfTheOneBefore(t *testing.T) {
	for _, reported := range []bool{false, true} {
		core, q := newDecode(t)
		var p scheduler.Pass
		step := func(now sim.Time) {
			t.Helper()
			if err := core.Step(now, now, &p); err != nil {
				t.Fatal(err)
			}
		}
		now := sim.Time(0)
		pulls := func() int {
			t.Helper()
			core.Submit(q)
			for range 4 {
				if step(now); len(p.Pulls) > 0 {
					return len(p.Pulls)
				}
				now = max(p.End, now+1)
			}
			return 0
		}
		if pulls() != 1 {
			t.Fatal("the first request reads nothing")
		}
		core.NoteTransfer(q.ID, now)
		if reported {
			step(now)
			now = max(p.End, now+1)
		}
		core.Cancel(now, q.ID, &p)
		if pulls() != 1 {
			t.Fatal("the second request reads nothing")
		}
		for range 6 {
			now = max(p.End, now+1)
			if step(now); p.Tokens > 0 {
				t.Fatalf("reported %v: a token at %v, before the KV cache was read", reported, p.End)
			}
		}
		core.NoteTransfer(q.ID, now)
		for tokens := 0; core.Load() > 0; now = max(p.End, now+1) {
			if step(now); p.Blocked && tokens == 0 && now > 1000 {
				t.Fatal("no token after the KV cache was read")
			}
			tokens += p.Tokens
		}
	}
}

// In a step with two plans, the pull of the first plan begins immediately. The pull begins then even if the worker
// waits for a store before the second plan, which preempts a request.
func TestPullBeginsWithItsOwnPlan(t *testing.T) {
	cfg, tree := small(func(c *vllm.Config) {
		c.Rules, c.Role, c.Pull, c.Blocks = releases.Rules024(), scheduler.Decode, true, 7
		c.Offload = blocks.Offload{Blocks: 100, BytesPerToken: 1000, BatchBlocks: 1, ToHostGBPerSecond: 1e-6, ToGPUGBPerSecond: 1}
	})
	core, err := vllm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	core.Submit(request(tree, 0, 12, 2, 1, 2, 3))
	for id := 1; id <= 2; id++ {
		own := request(tree, id, 4, 4, uint64(3+id))
		own.Local = true
		core.Submit(own)
	}
	var p scheduler.Pass
	if err := core.Step(0, 0, &p); err != nil {
		t.Fatal(err)
	}
	if len(p.Pulls) != 1 || p.Pulls[0].Begins != 0 || p.Preempted != 1 {
		t.Errorf("pulls %v and %d requests lost their places, must be one that begins at 0, and 1", p.Pulls, p.Preempted)
	}
	if err := core.Step(p.End, p.End, &p); err != nil || p.End < 9000 {
		t.Errorf("%v, the second pass ends at %v, must be after the stores, at 9000", err, p.End)
	}
}
