package router

import (
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// copier is an engine under vLLM's own rules, in which several blocks often have the same content. copier also has
// the index that follows the engine, and the number of blocks by name.
type copier struct {
	core   *vllm.Core
	tree   *prompt.Tree
	rng    *rand.Rand
	now    sim.Time
	pass   scheduler.Pass
	next   sim.RequestID
	index  *treeIndex
	blocks map[uint64]int
	copies int // number of events about copies
}

const copierBlock = 4

func newCopier(t *testing.T, seed uint64) *copier {
	c := &copier{rng: rand.New(rand.NewPCG(seed, 8)), tree: prompt.NewTree(copierBlock, copierBlock, prompt.Options{}), blocks: make(map[uint64]int)}
	var err error
	c.core, err = vllm.New(vllm.Config{
		Settings: vllm.Settings{MaxSeqs: 6, MaxBatchedTokens: 8 + c.rng.IntN(40), ChunkedPrefill: true, Rules: releases.Rules033()},
		Blocks:   24 + c.rng.IntN(30), BlockTokens: copierBlock,
		PrefixCaching: true,
		Clock:         timing.Clock{Model: timing.Polynomial{}, Speedup: 1, DecodeSpeedup: 1},
		Tree:          c.tree, Capture: scheduler.CaptureEvents,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.index = newTreeIndex(c.tree)
	return c
}

// submit submits a prompt that shares its prefix with many other prompts.
func (c *copier) submit(output int) *sim.Request {
	ids := make([]uint64, 1+c.rng.IntN(10))
	for i, family := 0, uint64(c.rng.IntN(3)); i < len(ids); i++ {
		if ids[i] = family; c.rng.IntN(12) == 0 {
			family = uint64(c.rng.IntN(3))
		}
	}
	tokens := len(ids)*copierBlock - c.rng.IntN(2)
	r := &sim.Request{ID: c.next, InputTokens: tokens, OutputTokens: output, Prompt: c.tree.Add(ids, tokens)}
	c.next++
	c.core.Submit(r)
	return r
}

// step runs a pass and compares the names in the index with the engine's blocks.
func (c *copier) step(t *testing.T) {
	t.Helper()
	if err := c.core.Step(c.now, c.now, &c.pass); err != nil {
		t.Fatal(err)
	}
	c.now = c.pass.End
	for _, e := range c.pass.Events {
		for _, b := range e.Stored {
			c.blocks[b.Seq]++
		}
		for _, seq := range e.Removed {
			if c.blocks[seq]--; c.blocks[seq] == 0 {
				delete(c.blocks, seq)
			}
		}
		if e.Copy {
			c.copies++
		}
	}
	if err := c.index.observe(0, &c.pass); err != nil {
		t.Fatal(err)
	}
	if n := c.index.index.Size(); n != len(c.blocks) {
		t.Fatalf("%d blocks in the index, %d of different content in the engine", n, len(c.blocks))
	}
	for seq := range c.blocks {
		if c.index.index.lookup[0][seq] == nil {
			t.Fatalf("block %x of the engine is not in the index", seq)
		}
	}
}

// probe submits a prompt to the idle engine. probe checks that the engine finds the same cached tokens as the index.
func (c *copier) probe(t *testing.T) (found int) {
	t.Helper()
	r := c.submit(1)
	want := 0
	for _, m := range c.index.index.Match(c.tree.AppendLocal(nil, &r.Prompt), false, nil) {
		want = min(int(m.Blocks), (r.InputTokens-1)/copierBlock) * copierBlock
	}
	for reused := -1; c.core.Load() > 0; {
		c.step(t)
		for _, a := range c.pass.Admitted {
			if reused = a.Reused; reused != want {
				t.Fatalf("prompt of %d tokens finds %d in the engine, %d in the index", r.InputTokens, reused, want)
			}
		}
	}
	return want
}

// TestIndexFollowsCopies checks that the index keeps a block until the engine has evicted all blocks with the same
// content. The index then finds the same blocks as the engine.
func TestIndexFollowsCopies(t *testing.T) {
	copies, found := 0, 0
	for seed := range uint64(40) {
		c := newCopier(t, seed)
		for range 30 {
			for range 1 + c.rng.IntN(6) {
				c.submit(1 + c.rng.IntN(20))
			}
			for c.core.Load() > 0 {
				c.step(t)
			}
			found += c.probe(t)
		}
		copies += c.copies
	}
	if copies < 1000 || found < 1000 {
		t.Errorf("%d events of copies, %d tokens found: the engines are too easy", copies, found)
	}
}
