package vllm_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// sharing is a random workload of prompts with common prefixes, for two engines. Each request exists once for blocks
// in segments, and once for single blocks, with prompts in a tree of equal nodes.
type sharing struct {
	segments, blocks vllm.Config
	pairs            [][2]*sim.Request
}

func drawSharing(seed uint64, rules vllm.Rules) *sharing {
	rng := rand.New(rand.NewPCG(seed, 9))
	block := 2 << rng.IntN(4)
	per := 1 << rng.IntN(4)
	w := &sharing{segments: vllm.Config{
		Settings: vllm.Settings{
			MaxSeqs: 1 + rng.IntN(24), MaxBatchedTokens: block * (1 + rng.IntN(40)), Rules: rules,
			ChunkedPrefill: true, Preemption: vllm.Preemption(rng.IntN(2)), Scheduling: vllm.Policy(rng.IntN(4) / 3),
		},
		BlockTokens:   block,
		PrefixCaching: true,
		Capture:       scheduler.CaptureResidency,
		Clock:         timing.Clock{Speedup: 1, DecodeSpeedup: 1, Model: &timing.Parameters{Base: 0.01, Token: 1e-4}},
	}}
	if rng.IntN(3) == 0 { // several prompts are computed together, so that blocks have copies
		w.segments.Rules.LongPrefillTokens = 1 + rng.IntN(4*block)
	}
	var ids [][]uint64
	var requests []sim.Request
	at, largest := sim.Time(0), 0
	for id := range 2 + rng.IntN(60) {
		at += sim.Time(max(0, rng.IntN(300)-100))
		path := make([]uint64, 1+rng.IntN(6))
		for i := range path {
			path[i] = uint64(rng.IntN(1 + rng.IntN(3)))
		}
		input := len(path)*per*block - rng.IntN(per*block)*rng.IntN(2)
		requests = append(requests, sim.Request{
			ID: sim.RequestID(id), InputTokens: input, OutputTokens: 1 + rng.IntN(6*block), Arrived: at, Priority: int32(rng.IntN(3)),
		})
		ids = append(ids, path)
		largest = max(largest, input+requests[id].OutputTokens)
	}
	w.segments.KeepSent = seed%3 == 0
	w.segments.Blocks = largest/block + 2 + rng.IntN(1+rng.IntN(200))
	w.blocks = w.segments
	w.blocks.Capture = scheduler.CaptureEvents
	source := func(i int) ([]uint64, int) { return ids[i], requests[i].InputTokens }
	w.segments.Tree = prompt.NewTree(per*block, block, prompt.Options{Joined: rng.IntN(4) > 0})
	w.blocks.Tree = prompt.NewTree(per*block, block, prompt.Options{})
	joined, plain := w.segments.Tree.AddAll(len(ids), source), w.blocks.Tree.AddAll(len(ids), source)
	for i := range requests {
		a, b := requests[i], requests[i]
		a.Prompt, b.Prompt = joined.At(i), plain.At(i)
		w.pairs = append(w.pairs, [2]*sim.Request{&a, &b})
	}
	return w
}

// run compares the engines pass by pass, cancels some requests, and counts reused blocks.
func (w *sharing) run(t *testing.T, seed uint64) (preempted, reused int, err error) {
	rng := rand.New(rand.NewPCG(seed, 3))
	cores := [2]scheduler.Core{build(t, w.segments), build(t, w.blocks)}
	passes := [2]scheduler.Pass{{Detail: new(scheduler.Detail)}, {Detail: new(scheduler.Detail)}}
	seen := cached{map[prompt.NodeID]int32{}, map[uint64]int{}}
	arrived := 0
	var kept []sim.RequestID
	for now := sim.Time(0); arrived < len(w.pairs) || cores[0].Load() > 0; now = passes[0].End {
		for ; arrived < len(w.pairs) && (cores[0].Load() == 0 || w.pairs[arrived][0].Arrived <= now); arrived++ {
			now = max(now, w.pairs[arrived][0].Arrived)
			for i, c := range cores {
				c.Submit(w.pairs[arrived][i])
			}
		}
		cancel := sim.RequestID(-1)
		if rng.IntN(40) == 0 {
			cancel = sim.RequestID(rng.IntN(arrived))
		}
		if passes[0].Blocked || rng.IntN(3) == 0 {
			kept = release(t, kept, cores[:])
		}
		var errs [2]error
		for i, c := range cores {
			if cancel >= 0 && c.Cancel(now, cancel, &passes[i]) {
				seen.note(&passes[i])
			}
			if c.Load() > 0 {
				errs[i] = c.Step(now, now, &passes[i])
				seen.note(&passes[i])
			}
		}
		if fmt.Sprint(errs[0]) != fmt.Sprint(errs[1]) {
			return 0, 0, fmt.Errorf("at %v: error %v, want %v", now, errs[0], errs[1])
		}
		if errs[0] != nil || passes[0].End > 1e7 {
			return preempted, reused, nil
		}
		a, b := schedulertest.Single(&passes[0], 0), schedulertest.Single(&passes[1], 0)
		a.KV, b.Events = nil, nil
		if x, y := fmt.Sprintf("%+v", *passes[0].Detail), fmt.Sprintf("%+v", *passes[1].Detail); !reflect.DeepEqual(a, b) || x != y {
			return 0, 0, fmt.Errorf("at %v:\n got %+v %s\nwant %+v %s", now, a, x, b, y)
		}
		for _, pair := range w.pairs[:arrived] {
			if x, y := seen.ofNodes(w.segments.Tree, &pair[0].Prompt), seen.ofBlocks(w.blocks.Tree, &pair[1].Prompt); x != y {
				return 0, 0, fmt.Errorf("at %v: %d blocks of the prompt of %d are cached, want %d", now, x, pair[0].ID, y)
			}
		}
		for _, m := range passes[0].Marks {
			if m.Last && w.segments.KeepSent {
				kept = append(kept, m.Request)
			}
		}
		preempted += passes[0].Preempted
		for _, x := range passes[0].Admitted {
			reused += x.Reused / w.blocks.BlockTokens
		}
	}
	before := cores[0].Cache()
	for len(kept) > 0 {
		kept = release(t, kept, cores[:])
	}
	if after := cores[0].Cache(); !reflect.DeepEqual(named(&before), named(&after)) {
		return 0, 0, fmt.Errorf("the cache as if all had left is\n%+v, and once they have it is\n%+v", named(&before), named(&after))
	}
	for i, c := range cores {
		if got, want := c.Room(), build(t, [...]vllm.Config{w.segments, w.blocks}[i]).Room(); got != want {
			return 0, 0, fmt.Errorf("%d blocks are free at the end, want %d", got, want)
		}
	}
	return preempted, reused, nil
}

// named returns the named blocks of a cache. named joins adjacent blocks that no request can find.
func named(c *scheduler.Cache) (all []scheduler.CachedBlocks) {
	for _, b := range c.Blocks {
		n := len(all) - 1
		switch {
		case b.Blank:
		case b.Node == prompt.None && n >= 0 && all[n].Node == prompt.None:
			all[n].To += b.To
		default:
			all = append(all, b)
		}
	}
	return all
}

// release releases the blocks of the first kept request on all cores. A request that was preempted when its last
// token came has no blocks.
func release(t *testing.T, kept []sim.RequestID, cores []scheduler.Core) []sim.RequestID {
	if len(kept) == 0 {
		return nil
	}
	x, y := cores[0].Release(kept[0]), cores[1].Release(kept[0])
	if x != y || cores[0].Release(kept[0]) {
		t.Fatalf("request %d: blocks given back: %v, want %v, and once", kept[0], x, y)
	}
	return kept[1:]
}

// cached is the cached blocks that cores reported: by node, and block by block.
type cached struct {
	nodes  map[prompt.NodeID]int32
	blocks map[uint64]int // 1 for a cached block, by sequence hash
}

func (c *cached) note(p *scheduler.Pass) {
	for _, k := range p.KV {
		c.nodes[k.Node] = k.Blocks
	}
	for _, e := range p.Events {
		if e.Copy {
			continue
		}
		for _, b := range e.Stored {
			c.blocks[b.Seq]++
		}
		for _, seq := range e.Removed {
			c.blocks[seq]--
		}
	}
}

// ofNodes returns how many of the first blocks of a prompt are cached, by nodes.
func (c *cached) ofNodes(tree *prompt.Tree, p *prompt.Prompt) (n int32) {
	for _, id := range tree.Full(p) {
		n += c.nodes[id]
		if c.nodes[id] < tree.Size(id) {
			break
		}
	}
	return min(n, p.Blocks)
}

// ofBlocks returns how many of the first blocks of a prompt are cached, by single blocks.
func (c *cached) ofBlocks(tree *prompt.Tree, p *prompt.Prompt) (n int32) {
	for n < p.Blocks && c.blocks[tree.SequenceHash(p.Nodes[int(n)/tree.PerNode()], int(n)%tree.PerNode())] > 0 {
		n++
	}
	return n
}

// Blocks in segments give the same passes as single blocks, and the same cached blocks after each pass.
func TestSegmentsEqualBlocks(t *testing.T) {
	cases := long.Cases(uint64(100), 300)
	rules := []vllm.Rules{releases.Rules019(), releases.Rules024(), releases.Rules033(), {MixedStep: true, RecomputeLast: true}}
	all := [2]int{}
	for seed := range cases {
		w := drawSharing(seed, rules[seed%4])
		preempted, reused, err := w.run(t, seed)
		if err != nil {
			t.Fatalf("seed %d: %+v: %v", seed, w.segments, err)
		}
		all[0] += preempted
		all[1] += reused
	}
	if all[0] < int(cases) || all[1] < 20*int(cases) {
		t.Errorf("%d preemptions and %d blocks found in %d cases, want more", all[0], all[1], cases)
	}
}

// addWindows adds windows to some layers of both engines, with as many blocks as their groups need or a few more.
func (w *sharing) addWindows(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 12))
	block := w.blocks.BlockTokens
	g := vllm.Windows{Tokens: 2 + rng.IntN(12*block), Groups: 1 + rng.IntN(4), Full: 1 + rng.IntN(5)/4, FullFirst: rng.IntN(2) == 0}
	if rng.IntN(4) == 0 {
		g.Chunked, g.Tokens = true, block*(1+rng.IntN(12))
	}
	for _, c := range []*vllm.Config{&w.segments, &w.blocks} {
		c.Windows, c.KeepSent, c.Preemption = g, false, vllm.LIFO
		for _, pair := range w.pairs {
			if e := c.Fits(pair[0].InputTokens, pair[0].OutputTokens); e != nil {
				c.Blocks = max(c.Blocks, e.Blocks)
			}
		}
	}
}

// With windows in layers, blocks in segments also equal single blocks.
func TestWindowsInSegments(t *testing.T) {
	cases := long.Cases(uint64(150), 2000)
	rules := []vllm.Rules{releases.Rules019(), releases.Rules020(), releases.Rules024(), releases.Rules033()}
	all := [2]int{}
	for seed := range cases {
		w := drawSharing(seed, rules[seed%4])
		w.addWindows(seed)
		for _, c := range []*vllm.Config{&w.segments, &w.blocks} {
			c.Rules.TwoInFlight, c.Rules.OneQueue, c.PrefixCaching = seed%3 > 0, seed%5 > 0, seed%16 > 0
			if !c.PrefixCaching {
				c.Capture = scheduler.CaptureNone
			}
		}
		preempted, reused, err := w.run(t, seed)
		if err != nil {
			t.Fatalf("seed %d: %+v: %v", seed, w.segments, err)
		}
		all[0] += preempted
		all[1] += reused
	}
	if all[0] < int(cases) || all[1] < 10*int(cases) {
		t.Errorf("%d preemptions and %d blocks found in %d cases, want more", all[0], all[1], cases)
	}
}
