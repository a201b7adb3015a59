package vllm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// The blocks that a request stores in a pass are one event. Blocks are also one event if some are copies, or if
// blocks of another request precede them.
func TestEventsAreOfRequests(t *testing.T) {
	tree := prompt.NewTree(16, 16, prompt.Options{})
	core := build(t, vllm.Config{
		Settings: vllm.Settings{MaxSeqs: 8, MaxBatchedTokens: 8192, ChunkedPrefill: true, Rules: releases.Rules033()},
		Blocks:   64, BlockTokens: 16, PrefixCaching: true,
		Clock: timing.Clock{Model: timing.Polynomial{}, Speedup: 1, DecodeSpeedup: 1},
		Tree:  tree, Capture: scheduler.CaptureEvents,
	})
	submit := func(id sim.RequestID, tokens int, ids ...uint64) {
		core.Submit(&sim.Request{ID: id, InputTokens: tokens, OutputTokens: 1, Prompt: tree.Add(ids, tokens)})
	}
	var pass scheduler.Pass
	drain := func() string {
		var text []string
		for core.Load() > 0 {
			if err := core.Step(pass.End, pass.End, &pass); err != nil {
				t.Fatal(err)
			}
			for _, e := range pass.Events {
				text = append(text, fmt.Sprintf("%d blocks, after another %t, copies %t, goes on %t", len(e.Stored), e.HasParent, e.Copy, e.Continues))
			}
		}
		return strings.Join(text, "; ")
	}
	submit(1, 40, 1, 2, 3) // two full blocks
	submit(2, 60, 1, 2, 4, 5)
	if got, want := drain(), "2 blocks, after another false, copies false, goes on false; 1 blocks, after another true, copies false, goes on false"; got != want {
		t.Errorf("two requests: %s, want %s", got, want)
	}
	// The last block of a prompt of full blocks is computed again, as a copy.
	submit(3, 48, 7, 8, 9)
	drain()
	submit(4, 48, 7, 8, 9)
	submit(5, 64, 7, 8, 9, 10)
	if got, want := drain(), "1 blocks, after another true, copies true, goes on false; 1 blocks, after another true, copies false, goes on false"; got != want {
		t.Errorf("a copy, and another request: %s, want %s", got, want)
	}
}
