package router

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// shape is a kind of prompt tree.
type shape struct {
	trace, block int
	joined       bool
}

func (s shape) String() string {
	return fmt.Sprintf("trace=%d,block=%d,joined=%v", s.trace, s.block, s.joined)
}

// The shapes have one engine block per trace block, many, or engine blocks that cross trace blocks. The nodes of the
// shapes have different sizes.
var shapes = []shape{{4, 4, false}, {8, 1, false}, {12, 3, false}, {6, 4, false}, {4, 6, false}, {4, 4, true}, {8, 1, true}}

// prompts draws prompts with few different ids and any length, so that they share long prefixes. Unused prompts
// between the returned prompts make paths cross many pages.
func prompts(r *rand.Rand, s shape, count int) ([]prompt.Prompt, *prompt.Tree) {
	tree := prompt.NewTree(s.trace, s.block, prompt.Options{Joined: s.joined})
	var lists [][]uint64
	var tokens []int
	for n := range count {
		ids := make([]uint64, 1+r.IntN(6))
		for i := range ids {
			ids[i] = uint64(r.IntN(2))
		}
		lists, tokens = append(lists, ids), append(tokens, 1+r.IntN(len(ids)*s.trace))
		if s.joined {
			lists, tokens = apart(lists, tokens, n, s)
			continue
		}
		gap := make([]uint64, 1+r.IntN(40))
		for i := range gap {
			gap[i] = uint64(1000*(n+1) + i)
		}
		lists, tokens = append(lists, gap), append(tokens, len(gap)*s.trace)
	}
	all := tree.AddAll(len(lists), func(i int) ([]uint64, int) { return lists[i], tokens[i] })
	var asked []prompt.Prompt
	for i := 0; i < all.Len(); i += all.Len() / count {
		asked = append(asked, all.At(i))
	}
	return asked, tree
}

// apart adds prompts of one node each.
func apart(lists [][]uint64, tokens []int, n int, s shape) ([][]uint64, []int) {
	for k := range 20 {
		lists, tokens = append(lists, []uint64{uint64(1000*(n+1) + k)}), append(tokens, s.trace)
	}
	return lists, tokens
}

// cache is a worker's cache: the cached blocks by sequence hash, each with its position.
type cache map[uint64]place

type place struct {
	node     prompt.NodeID
	k        int // index of the block in the node
	parent   uint64
	children int
}

// fill caches the first blocks of a prompt and reports them as an engine would.
func (c cache) fill(tree *prompt.Tree, q prompt.Prompt, blocks int, p *scheduler.Pass) {
	local, seq := tree.Hashes(q)
	for k := range blocks {
		if _, ok := c[seq[k]]; ok {
			continue
		}
		n := q.Nodes[tree.Index(q.Nodes, k)]
		at := place{node: n, k: k - int(tree.Start(n))}
		e := scheduler.KVEvent{Stored: []scheduler.KVBlock{{Seq: seq[k], Tokens: local[k]}}}
		if k > 0 {
			at.parent = seq[k-1]
			e.HasParent, e.Parent = true, at.parent
			up := c[at.parent]
			up.children++
			c[at.parent] = up
		}
		c[seq[k]] = at
		p.KV = append(p.KV, scheduler.KVChange{Node: at.node, Blocks: int32(at.k + 1)})
		p.Events = append(p.Events, e)
	}
}

func (c cache) evict(r *rand.Rand, p *scheduler.Pass) {
	var leaves []uint64
	for seq, at := range c {
		if at.children == 0 {
			leaves = append(leaves, seq)
		}
	}
	if len(leaves) == 0 {
		return
	}
	slices.Sort(leaves)
	seq := leaves[r.IntN(len(leaves))]
	at := c[seq]
	if up, ok := c[at.parent]; ok {
		up.children--
		c[at.parent] = up
	}
	delete(c, seq)
	p.KV = append(p.KV, scheduler.KVChange{Node: at.node, Blocks: int32(at.k)})
	p.Events = append(p.Events, scheduler.KVEvent{Removed: []uint64{seq}})
}

// TestResidencyTwin checks that a residency gives the same answers as an Index, for caches that never drop a block
// before its children.
func TestResidencyTwin(t *testing.T) {
	for _, shape := range shapes {
		for _, workers := range []int{3, 70} {
			t.Run(fmt.Sprintf("%v,workers=%d", shape, workers), func(t *testing.T) {
				residencyTwin(t, shape, workers)
			})
		}
	}
}

func residencyTwin(t *testing.T, shape shape, workers int) {
	r := sim.NewRand(1, "residency")
	all, tree := prompts(r, shape, 60)
	fast, plain := residency{newHoldings(tree, workers)}, newTreeIndex(tree)
	caches := make([]cache, workers)
	for w := range caches {
		caches[w] = cache{}
	}
	var a, b scores
	a.grow(workers)
	b.grow(workers)
	credited, shared := 0, 0
	for range 3000 {
		w := r.IntN(workers)
		p := &scheduler.Pass{Count: 1}
		for range 1 + r.IntN(8) {
			if q := all[r.IntN(len(all))]; r.IntN(5) < 2 && q.Blocks > 0 {
				caches[w].fill(tree, q, 1+r.IntN(int(q.Blocks)), p)
			} else {
				caches[w].evict(r, p)
			}
		}
		if err := plain.observe(sim.WorkerID(w), p); err != nil {
			t.Fatal(err)
		}
		if err := fast.observe(sim.WorkerID(w), p); err != nil {
			t.Fatal(err)
		}
		q := all[r.IntN(len(all))]
		fast.match(&sim.Request{Prompt: q}, &a)
		plain.match(&sim.Request{Prompt: q}, &b)
		shared += min(int(a.shared), 1)
		a.spread()
		if !slices.Equal(a.by, b.by) || a.max != b.max {
			t.Fatalf("blocks %d of nodes %v: %v (max %d), want %v (max %d)", q.Blocks, q.Nodes, a.by, a.max, b.by, b.max)
		}
		for _, blocks := range a.by {
			credited += min(int(blocks), 1)
		}
		a.clear()
		b.clear()
	}
	if credited < 300 {
		t.Errorf("only %d credits in 3000 queries", credited)
	}
	if workers > 64 && shared < 20 {
		t.Errorf("only %d of 3000 queries find blocks that many workers share", shared)
	}
}

// refs is the number of holders of each active block of a worker, as in docs/rules/router.md, Load.
type refs map[uint64]int

func (f refs) add(seq []uint64, by int) {
	for _, h := range seq {
		if f[h] += by; f[h] == 0 {
			delete(f, h)
		}
	}
}

func (f refs) depth(seq []uint64) int32 {
	for i, h := range seq {
		if f[h] == 0 {
			return int32(i)
		}
	}
	return int32(len(seq))
}

// TestLoadsTwin compares active blocks counted by path with active blocks counted one by one.
func TestLoadsTwin(t *testing.T) {
	for _, shape := range shapes {
		for _, workers := range []int{3, 70} {
			t.Run(fmt.Sprintf("%v,workers=%d", shape, workers), func(t *testing.T) {
				loadsTwin(t, shape, workers)
			})
		}
	}
}

func loadsTwin(t *testing.T, shape shape, workers int) {
	type run struct {
		w sim.WorkerID
		q prompt.Prompt
	}
	r := sim.NewRand(1, "loads")
	all, tree := prompts(r, shape, 60)
	fast := newTreeLoads(tree, workers)
	plain := make([]refs, workers)
	for w := range plain {
		plain[w] = refs{}
	}
	var running []run
	var s scores
	s.grow(workers)
	for step := range 6000 {
		// The number of running requests alternately grows and shrinks to zero.
		if grow := step/500%2 == 0; len(running) == 0 || r.IntN(10) < 3+4*asInt(grow) {
			x := run{sim.WorkerID(r.IntN(workers)), all[r.IntN(len(all))]}
			_, seq := tree.Hashes(x.q)
			fast.add(x.w, &sim.Request{Prompt: x.q})
			plain[x.w].add(seq, 1)
			running = append(running, x)
		} else {
			i := r.IntN(len(running))
			x := running[i]
			_, seq := tree.Hashes(x.q)
			fast.remove(x.w, &sim.Request{Prompt: x.q})
			plain[x.w].add(seq, -1)
			running = slices.Delete(running, i, i+1)
		}
		q := all[r.IntN(len(all))]
		_, seq := tree.Hashes(q)
		fast.match(&sim.Request{Prompt: q}, &s)
		s.spread()
		for w, f := range plain {
			if got, want := fast.blocks[w], int64(len(f)); got != want {
				t.Fatalf("step %d: worker %d has %d active blocks, want %d", step, w, got, want)
			}
			if got, want := s.by[w], f.depth(seq); got != want {
				t.Fatalf("step %d: %d blocks of nodes %v are active on worker %d, want %d", step, got, q.Nodes, w, want)
			}
		}
		s.clear()
	}
	for _, x := range running {
		fast.remove(x.w, &sim.Request{Prompt: x.q})
	}
	for i, p := range fast.holdings.pages {
		if p != nil {
			t.Errorf("page %d has %d holdings although nothing runs", i, p.live)
		}
	}
	if fast.more.counts.Len() != 0 {
		t.Errorf("%d nodes have more holders although nothing runs", fast.more.counts.Len())
	}
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
