package prompt_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/sim/blockhash"
	"github.com/replay-llm/replay/sim/prompt"
)

// tokens returns the tokens of a prompt as docs/rules/harness.md "Rows of traces" defines them.
func tokens(ids []uint64, traceTokens, length int) []uint32 {
	var all []uint32
	for _, id := range ids {
		all = append(all, slices.Repeat([]uint32{uint32(id)}, traceTokens)...)
	}
	return all[:length]
}

func common(a, b []uint32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

var shapes = []struct{ trace, block int }{
	{1, 1}, {4, 4}, {8, 2}, {8, 1}, {512, 16}, // a node is a trace block
	{4, 8}, {6, 4}, {4, 6}, {5, 7}, {1, 3}, // a node is an engine block
}

// The hashes of interned prompts are those of their tokens.
func TestHashes(t *testing.T) {
	for _, s := range shapes {
		t.Run(fmt.Sprintf("trace=%d,block=%d", s.trace, s.block), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 1))
			tree := prompt.NewTree(s.trace, s.block, prompt.Options{Wrap: true})
			for range 300 {
				ids, length := draw(r, s.trace)
				p := tree.Add(ids, length)
				want := blockhash.Request(tokens(ids, s.trace, length), s.block, blockhash.Options{})
				local, seq := tree.Hashes(p)
				if !slices.Equal(local, want) {
					t.Fatalf("ids %v, %d tokens: local hashes %v, want %v", ids, length, local, want)
				}
				if want := blockhash.Sequence(want); !slices.Equal(seq, want) {
					t.Fatalf("ids %v, %d tokens: sequence hashes %v, want %v", ids, length, seq, want)
				}
				for k, h := range seq {
					n := p.Nodes[k/tree.PerNode()]
					if got := tree.SequenceHash(n, k%tree.PerNode()); got != h {
						t.Fatalf("ids %v: block %d is %d by its node, want %d", ids, k, got, h)
					}
				}
			}
		})
	}
}

// draw returns a prompt with few different ids, so that prompts have long common prefixes.
func draw(r *rand.Rand, trace int) (ids []uint64, length int) {
	ids = make([]uint64, 1+r.IntN(6))
	for i := range ids {
		ids[i] = uint64(r.IntN(2)) + uint64(r.IntN(2))<<32 // the high 32 bits are ignored
	}
	return ids, (len(ids)-1)*trace + 1 + r.IntN(trace)
}

// Two prompts share as many tokens and nodes as the common prefix of their tokens.
func TestCommon(t *testing.T) {
	for _, s := range shapes {
		t.Run(fmt.Sprintf("trace=%d,block=%d", s.trace, s.block), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			tree := prompt.NewTree(s.trace, s.block, prompt.Options{Wrap: true})
			shared := 0
			for range 2000 {
				idsA, lenA := draw(r, s.trace)
				idsB, lenB := draw(r, s.trace)
				a, b := tree.Add(idsA, lenA), tree.Add(idsB, lenB)
				want := common(tokens(idsA, s.trace, lenA), tokens(idsB, s.trace, lenB))
				if got := tree.Common(a, b, lenA, lenB); got != want {
					t.Fatalf("%v (%d) and %v (%d) have %d tokens in common, want %d", idsA, lenA, idsB, lenB, got, want)
				}
				full := min(want/s.block, int(a.Blocks), int(b.Blocks)) / tree.PerNode()
				if !slices.Equal(a.Nodes[:full], b.Nodes[:full]) {
					t.Fatalf("%v (%d) and %v (%d): nodes %v and %v, want %d in common", idsA, lenA, idsB, lenB, a.Nodes, b.Nodes, full)
				}
				if want > 0 {
					shared++
				}
			}
			if shared < 500 {
				t.Errorf("only %d of 2000 pairs share a token", shared)
			}
		})
	}
}

// Nodes come after their parents, and the number of full blocks is the number of tokens divided by the block size.
func TestTree(t *testing.T) {
	for _, s := range shapes {
		r := rand.New(rand.NewPCG(1, 3))
		tree := prompt.NewTree(s.trace, s.block, prompt.Options{})
		for range 200 {
			ids, length := draw(r, s.trace)
			p := tree.Add(ids, length)
			if again := tree.Add(ids, length); !slices.Equal(again.Nodes, p.Nodes) {
				t.Fatalf("%v twice: nodes %v and %v", ids, p.Nodes, again.Nodes)
			}
			if p.Unique() || int(p.Blocks) != length/s.block {
				t.Fatalf("trace=%d block=%d, %d tokens: %+v", s.trace, s.block, length, p)
			}
			span := s.block * tree.PerNode()
			if want := (length + span - 1) / span; len(p.Nodes) != want {
				t.Fatalf("trace=%d block=%d, %d tokens: %d nodes, want %d", s.trace, s.block, length, len(p.Nodes), want)
			}
			up := prompt.None
			for _, n := range p.Nodes {
				if tree.Parent(n) != up || n <= up || int(n) >= tree.Len() {
					t.Fatalf("node %d of %d follows %d, parent %d", n, tree.Len(), up, tree.Parent(n))
				}
				up = n
			}
		}
	}
}

// With Options.Wrap only the low 32 bits of an id count.
func TestWrap(t *testing.T) {
	const group = 1 << 32
	for _, block := range []int{4, 3} {
		wrapped := prompt.NewTree(4, block, prompt.Options{Wrap: true})
		whole := prompt.NewTree(4, block, prompt.Options{})
		narrow, wide := []uint64{1, 2, 3}, []uint64{1 + group, 2 + 2*group, 3}
		if a, b := wrapped.Add(narrow, 12), wrapped.Add(wide, 12); !slices.Equal(a.Nodes, b.Nodes) {
			t.Errorf("block %d: nodes %v and %v, want the same", block, a.Nodes, b.Nodes)
		}
		a, b := whole.Add(narrow, 12), whole.Add(wide, 12)
		if a.Nodes[0] == b.Nodes[0] || whole.Common(a, b, 12, 12) != 0 {
			t.Errorf("block %d: nodes %v and %v, want nothing in common", block, a.Nodes, b.Nodes)
		}
		la, _ := whole.Hashes(a)
		lb, _ := whole.Hashes(b)
		if la[0] == lb[0] {
			t.Errorf("block %d: wide ids hash like narrow ones", block)
		}
	}
}

// Ids of any size are distinguished, in any order.
func TestWideIDs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	tree := prompt.NewTree(2, 2, prompt.Options{})
	nodes := map[uint64]prompt.NodeID{}
	for range 30_000 {
		id := r.Uint64() >> r.IntN(64)
		n := tree.Add([]uint64{id}, 2).Nodes[0]
		if old, ok := nodes[id]; ok && old != n {
			t.Fatalf("id %d is node %d and node %d", id, old, n)
		}
		nodes[id] = n
	}
	if tree.Len() != len(nodes) {
		t.Errorf("%d nodes for %d ids", tree.Len(), len(nodes))
	}
}

// Vectors of docs/rules/router.md "Hashes".
func TestVectors(t *testing.T) {
	for _, c := range []struct {
		trace, block    int
		ids             []uint64
		length          int
		local, sequence []uint64
	}{
		{64, 64, []uint64{0}, 64, []uint64{15480293642169978529}, []uint64{15480293642169978529}},
		{64, 64, []uint64{1, 2}, 128,
			[]uint64{16951273711404654616, 2439962053643786207}, []uint64{16951273711404654616, 11876878950716120354}},
		{4, 4, []uint64{1}, 4, []uint64{17197628134376687251}, []uint64{17197628134376687251}},
		{4, 2, []uint64{1, 2}, 7,
			[]uint64{5115472643011882342, 5115472643011882342, 9443947823198412653},
			[]uint64{5115472643011882342, 5508890557085166408, 16878553316591260824}},
	} {
		tree := prompt.NewTree(c.trace, c.block, prompt.Options{Wrap: true})
		local, seq := tree.Hashes(tree.Add(c.ids, c.length))
		if !slices.Equal(local, c.local) || !slices.Equal(seq, c.sequence) {
			t.Errorf("%v: hashes %v and %v, want %v and %v", c.ids, local, seq, c.local, c.sequence)
		}
	}
}

// Tokens of synthetic requests (docs/rules/harness.md
// "Synthetic workloads").
func TestSyntheticToken(t *testing.T) {
	for _, c := range []struct {
		i, t int
		want uint32
	}{{0, 0, 2065550767}, {0, 1, 2298633409}, {1, 0, 2743206200}, {2, 5, 918555268}} {
		if got := prompt.SyntheticToken(c.i, c.t); got != c.want {
			t.Errorf("token %d of request %d is %d, want %d", c.t, c.i, got, c.want)
		}
	}
}

// Synthetic prompts are unique, unless blocks of one or two tokens make two prompts begin alike.
func TestAddSynthetic(t *testing.T) {
	for _, block := range []int{1, 2, 4} {
		tree := prompt.NewTree(block, block, prompt.Options{Wrap: true})
		const count, length = 300, 11
		for i, p := range all(tree.AddSynthetic(count, length)) {
			var text []uint32
			for k := range length {
				text = append(text, prompt.SyntheticToken(i, k))
			}
			want := blockhash.Request(text, block, blockhash.Options{})
			if local, seq := tree.Hashes(p); !slices.Equal(local, want) || !slices.Equal(seq, blockhash.Sequence(want)) {
				t.Fatalf("block %d, request %d: hashes %v, want %v", block, i, local, want)
			}
			if block > 2 && !p.Unique() {
				t.Errorf("block %d, request %d is not unique", block, i)
			}
		}
	}
	tree := prompt.NewTree(4, 4, prompt.Options{})
	p := tree.AddSynthetic(2, 10)
	if got := tree.Common(p.At(0), p.At(1), 10, 10); got != 0 {
		t.Errorf("two unique prompts have %d tokens in common", got)
	}
	if got := tree.Common(p.At(0), p.At(0), 10, 10); got != 10 {
		t.Errorf("a unique prompt has %d of 10 tokens in common with itself", got)
	}
}
