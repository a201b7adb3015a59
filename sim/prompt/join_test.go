package prompt_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/sim/blockhash"
	"github.com/replay-llm/replay/sim/prompt"
)

// drawn is random prompts with their tree.
type drawn struct {
	tree    *prompt.Tree
	ids     [][]uint64
	tokens  []int
	prompts []prompt.Prompt
}

// join draws prompts with common prefixes; many prompts end where other prompts continue.
func join(r *rand.Rand, trace, block, count int, wrap bool) *drawn {
	d := &drawn{tree: prompt.NewTree(trace, block, prompt.Options{Joined: true, Wrap: wrap})}
	for range count {
		ids, tokens := draw(r, trace)
		if len(d.ids) > 0 && r.IntN(2) == 0 {
			ids = append(slices.Clone(d.ids[r.IntN(len(d.ids))]), ids...)
			tokens = r.IntN(len(ids)*trace) + 1
		}
		d.ids, d.tokens = append(d.ids, ids), append(d.tokens, tokens)
	}
	d.prompts = all(d.tree.AddAll(count, func(i int) ([]uint64, int) { return d.ids[i], d.tokens[i] }))
	return d
}

// all returns the prompts of a list as a slice.
func all(l *prompt.List) []prompt.Prompt {
	prompts := make([]prompt.Prompt, l.Len())
	for i := range prompts {
		prompts[i] = l.At(i)
	}
	return prompts
}

var joinedShapes = []struct{ trace, block int }{{1, 1}, {4, 4}, {8, 2}, {8, 1}, {64, 2}}

// The nodes of a prompt cover its full blocks without gaps, and their hashes are the hashes of the prompt's tokens.
func TestJoinedPaths(t *testing.T) {
	for _, s := range joinedShapes {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 5))
			d := join(r, s.trace, s.block, 1+r.IntN(60), true)
			for i, p := range d.prompts {
				if want := int32(d.tokens[i] / s.block); p.Blocks != want {
					t.Fatalf("%v: %d tokens have %d blocks, want %d", s, d.tokens[i], p.Blocks, want)
				}
				up, end := prompt.None, int32(0)
				for _, n := range d.tree.Full(&p) {
					if d.tree.Parent(n) != up || n <= up || d.tree.Start(n) != end || d.tree.Size(n) < 1 {
						t.Fatalf("%v: node %d of blocks %d to %d follows node %d, parent %d, at block %d",
							s, n, d.tree.Start(n), d.tree.End(n), up, d.tree.Parent(n), end)
					}
					for k := d.tree.Start(n); k < d.tree.End(n); k++ {
						if at := p.Nodes[d.tree.Index(p.Nodes, int(k))]; at != n {
							t.Fatalf("%v: block %d is in node %d, want %d", s, k, at, n)
						}
					}
					up, end = n, d.tree.End(n)
				}
				if end != p.Blocks {
					t.Fatalf("%v: nodes %v hold %d blocks, want %d", s, p.Nodes, end, p.Blocks)
				}
				compareHashes(t, d, i, s.trace, s.block)
			}
		}
	}
}

// compareHashes compares the hashes of a prompt's blocks with the hashes of its tokens.
func compareHashes(t *testing.T, d *drawn, i, trace, block int) {
	t.Helper()
	p := d.prompts[i]
	want := blockhash.Request(tokens(d.ids[i], trace, d.tokens[i]), block, blockhash.Options{})
	local, sequence := d.tree.Hashes(p)
	if !slices.Equal(local, want) || !slices.Equal(sequence, blockhash.Sequence(want)) {
		t.Fatalf("ids %v, %d tokens: local hashes %v, want %v", d.ids[i], d.tokens[i], local, want)
	}
	for k, h := range sequence {
		n := p.Nodes[d.tree.Index(p.Nodes, k)]
		if got := d.tree.SequenceHash(n, k-int(d.tree.Start(n))); got != h {
			t.Fatalf("ids %v: block %d is %d by its node, want %d", d.ids[i], k, got, h)
		}
	}
}

// Two prompts share the nodes of their common blocks. No node could be longer: after each node some prompt ends or
// diverges.
func TestJoinedNodesAreLongest(t *testing.T) {
	for _, s := range joinedShapes {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 6))
			d := join(r, s.trace, s.block, 1+r.IntN(60), false)
			have := make([]int, d.tree.Len()) // prompts with this node
			for i, p := range d.prompts {
				for _, n := range p.Nodes {
					have[n]++
				}
				for k := range d.prompts[:i] {
					q := d.prompts[k]
					nodes := shared(p.Nodes, q.Nodes)
					blocks := int32(0)
					if nodes > 0 {
						blocks = d.tree.End(p.Nodes[nodes-1])
					}
					tokens := min(shared(d.ids[i], d.ids[k])*s.trace, d.tokens[i], d.tokens[k])
					if want := int32(tokens / s.block); blocks != want {
						t.Fatalf("%v: prompts %v and %v share %d blocks of nodes, want %d", s, d.ids[i], d.ids[k], blocks, want)
					}
				}
			}
			for n := range prompt.NodeID(d.tree.Len()) {
				if up := d.tree.Parent(n); have[n] == 0 || up != prompt.None && have[up] <= have[n] {
					t.Fatalf("%v: %d prompts have node %d, and %d its parent", s, have[n], n, have[max(up, 0)])
				}
			}
		}
	}
}

func shared[T comparable](a, b []T) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// A joined tree adds its prompts only once, and blocks that straddle are not joined.
func TestJoinedTakesPromptsOnce(t *testing.T) {
	tree := prompt.NewTree(4, 2, prompt.Options{Joined: true})
	add := func() { tree.AddAll(1, func(int) ([]uint64, int) { return []uint64{1, 2}, 7 }) }
	add()
	for what, f := range map[string]func(){"AddAll": add, "Add": func() { tree.Add([]uint64{1}, 4) }} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s to a joined tree that has its prompts does not panic", what)
				}
			}()
			f()
		}()
	}
	straddling := prompt.NewTree(4, 3, prompt.Options{Joined: true})
	if p := straddling.Add([]uint64{1, 2}, 7); straddling.PerNode() != 1 || len(p.Nodes) != 3 {
		t.Errorf("%d blocks per node, nodes %v, want 1 and three", straddling.PerNode(), p.Nodes)
	}
}

// Many prompts make the table of children grow.
func TestJoinedMany(t *testing.T) {
	const count = 5000
	tree := prompt.NewTree(2, 2, prompt.Options{Joined: true})
	prompts := all(tree.AddAll(count, func(i int) ([]uint64, int) { return []uint64{uint64(i % 7), uint64(i), uint64(i) << 40}, 6 }))
	if want := 7 + count; tree.Len() != want {
		t.Errorf("%d nodes, want %d", tree.Len(), want)
	}
	for i, p := range prompts {
		if got, want := fmt.Sprint(p.Nodes[0]), fmt.Sprint(prompts[i%7].Nodes[0]); got != want || len(p.Nodes) != 2 {
			t.Fatalf("prompt %d begins with node %s of %v, want %s of two", i, got, p.Nodes, want)
		}
	}
}

// Hash ids that all map to the same slots of the table are still distinguished: first ids far apart, then one id
// after many other ids.
func TestJoinManyPrompts(t *testing.T) {
	const count = 3000
	for _, shift := range []int{0, 12, 40} {
		var ids [][]uint64
		for i := range uint64(count) {
			ids = append(ids, []uint64{i << shift}, []uint64{i << shift, 7}, []uint64{i << shift, 9})
		}
		tree := prompt.NewTree(4, 4, prompt.Options{Joined: true})
		prompts := all(tree.AddAll(len(ids), func(i int) ([]uint64, int) { return ids[i], 4 * len(ids[i]) }))
		if tree.Len() != len(ids) {
			t.Fatalf("shift %d: %d nodes, want %d", shift, tree.Len(), len(ids))
		}
		for i := range prompts {
			path, first := prompts[i].Nodes, prompts[i/3*3].Nodes[0]
			if len(path) != len(ids[i]) || path[0] != first || i%3 > 0 && tree.Parent(path[1]) != first {
				t.Fatalf("shift %d: prompt %d is %v after %v", shift, i, path, first)
			}
		}
	}
}
