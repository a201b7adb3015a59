package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/blockhash"
)

// story runs a script of operations on a block index, one per line:
//
//	w0 store 101/1 102/2        blocks as sequence hash/local hash
//	w0 store <101 102/2         after parent 101
//	w0 remove 101 102
//	w0 clear
//	match 1 2 3
//	size
//
// A line with a result has it on the next line, after an arrow.
func story(t *testing.T, script string) {
	t.Helper()
	x := NewIndex()
	lines := strings.Split(strings.TrimSpace(script), "\n")
	answers := 0
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "→") {
			continue
		}
		got := tell(t, x, strings.Fields(line))
		want := ""
		if i+1 < len(lines) {
			want, _ = strings.CutPrefix(strings.TrimSpace(lines[i+1]), "→")
			if want != strings.TrimSpace(lines[i+1]) {
				answers++
			} else {
				want = ""
			}
		}
		if want = strings.TrimSpace(want); got != want {
			t.Errorf("line %d: %s\n got %q\nwant %q", i+1, line, got, want)
		}
	}
	if answers == 0 {
		t.Error("the story asks nothing")
	}
}

func tell(t *testing.T, x *Index, words []string) string {
	t.Helper()
	var w sim.WorkerID
	switch words[0] {
	case "match":
		var q []uint64
		for _, word := range words[1:] {
			q = append(q, parseHash(t, word))
		}
		var b strings.Builder
		for _, m := range x.Match(q, false, nil) {
			fmt.Fprintf(&b, "w%d:%d ", m.Member.Worker, m.Blocks)
		}
		return "{" + strings.TrimSpace(b.String()) + "}"
	case "size":
		return fmt.Sprint(x.Size())
	}
	if _, err := fmt.Sscanf(words[0], "w%d", &w); err != nil {
		t.Fatalf("%q: %v", words[0], err)
	}
	e := scheduler.KVEvent{}
	for _, word := range words[2:] {
		switch parent, isParent := strings.CutPrefix(word, "<"); {
		case isParent:
			e.HasParent, e.Parent = true, parseHash(t, parent)
		case words[1] == "store":
			seq, tokens, _ := strings.Cut(word, "/")
			e.Stored = append(e.Stored, scheduler.KVBlock{Seq: parseHash(t, seq), Tokens: parseHash(t, tokens)})
		case words[1] == "remove":
			e.Removed = append(e.Removed, parseHash(t, word))
		}
	}
	if words[1] == "clear" {
		x.Clear(w)
		return ""
	}
	if err := x.Apply(w, e); err != nil {
		var typed *IndexError
		if !errors.As(err, &typed) {
			t.Fatalf("%v: error %T, want *IndexError", words, err)
		}
		return err.Error()
	}
	return ""
}

func parseHash(t *testing.T, s string) (h uint64) {
	t.Helper()
	if _, err := fmt.Sscan(s, &h); err != nil {
		t.Fatalf("%q is no hash: %v", s, err)
	}
	return h
}

func TestIndex(t *testing.T) {
	for name, script := range map[string]string{
		"two workers share": `
			w0 store 101/1 102/2 103/3
			w1 store 101/1 102/2 103/3
			match 1 2 3
			→ {w0:3 w1:3}
			match 1 2 3 4
			→ {w0:3 w1:3}
			match 1 2
			→ {w0:2 w1:2}
			match 9 1
			→ {}
			match
			→ {}
			w0 remove 101
			match 1 2 3
			→ {w1:3}
			size
			→ 5
			w1 remove 102
			match 1 2 3
			→ {w1:3}
			size
			→ 4`,
		"the first block goes and comes back": `
			w0 store 101/1 102/2 103/3
			w0 remove 101
			match 1 2 3
			→ {}
			size
			→ 2
			w0 store 101/1
			match 1 2 3
			→ {w0:1}
			size
			→ 3
			w0 store <101 102/2
			match 1 2 3
			→ {w0:3}
			size
			→ 3`,
		"the middle block goes": `
			w0 store 101/1 102/2 103/3
			w0 remove 102
			match 1 2 3
			→ {w0:1}
			size
			→ 2`,
		"an unknown block among the removed": `
			w0 store 101/1 102/2 103/3
			w0 remove 888 103
			→ Failed to find block: worker 0 rank 0, block 888
			match 1 2 3
			→ {w0:2}`,
		"prefixes of different length": `
			w0 store 101/1 102/2 103/3
			w1 store 101/1 102/2
			w2 store 101/1
			match 1 2 3
			→ {w0:3 w1:2 w2:1}`,
		"the same tokens under two names": `
			w0 store 101/1 102/2 103/3
			w0 store 201/1 202/2
			match 1 2 3
			→ {w0:3}
			size
			→ 5
			w0 remove 201
			match 1 2 3
			→ {}
			size
			→ 4
			w0 remove 101
			size
			→ 3`,
		"a block after itself": `
			w0 store 101/1
			w0 store <101 101/2
			→ Invalid block sequence: worker 0 rank 0, block 101
			match 1 2
			→ {w0:2}
			match 1 2 2 2 2
			→ {w0:5}`,
		"another worker's parent is no parent": `
			w0 store 101/1
			w1 store <101 102/2
			→ Failed to find parent block: worker 1 rank 0, block 101
			size
			→ 1`,
		"clear takes the worker only": `
			w0 store 101/1 102/2
			w1 store 101/1 102/2
			w0 clear
			match 1 2
			→ {w1:2}
			w1 clear
			match 1 2
			→ {}
			size
			→ 0`,
	} {
		t.Run(name, func(t *testing.T) { story(t, script) })
	}
}

func TestIndexEarlyExit(t *testing.T) {
	x := NewIndex()
	tell(t, x, strings.Fields("w0 store 101/1 102/2 103/3"))
	tell(t, x, strings.Fields("w1 store 101/1 102/2"))
	for _, c := range []struct {
		query []uint64
		want  string
	}{
		{[]uint64{1, 2}, "[{worker 0 rank 0 2} {worker 1 rank 0 2}]"},
		{[]uint64{1, 2, 3, 4}, "[{worker 0 rank 0 3} {worker 1 rank 0 2}]"},
	} {
		if got := fmt.Sprint(x.Match(c.query, true, nil)); got != c.want {
			t.Errorf("match %v = %s, want %s", c.query, got, c.want)
		}
	}
	tell(t, x, strings.Fields("w0 store 201/9 202/8"))
	if got := fmt.Sprint(x.Match([]uint64{9, 8}, true, nil)); got != "[{worker 0 rank 0 1}]" {
		t.Errorf("match of one holder = %s, want it to stop at the first block", got)
	}
}

// TestIndexRanks checks that ranks of a worker are separate, and that clearing a worker clears all its ranks.
func TestIndexRanks(t *testing.T) {
	x := NewIndex()
	blocks := []scheduler.KVBlock{{Seq: 101, Tokens: 1}, {Seq: 102, Tokens: 2}}
	for w := range sim.WorkerID(70) { // more than the bits of a word
		if err := x.Apply(w, scheduler.KVEvent{Stored: blocks[:1+w%2], Rank: int32(w)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Apply(3, scheduler.KVEvent{Stored: blocks, Rank: 0}); err != nil {
		t.Fatal(err)
	}
	x.Clear(68)
	got := x.Match([]uint64{1, 2}, false, nil)
	if len(got) != 70 {
		t.Fatalf("%d members match, want 70", len(got))
	}
	if r := x.Reachable(); fmt.Sprint(r) != fmt.Sprint(got) {
		t.Errorf("reachable %v, want what matches: %v", r, got)
	}
	for _, m := range got {
		if want := 1 + int32(m.Member.Worker)%2; m.Blocks != want || m.Member.Worker == 68 {
			t.Errorf("%v matches %d blocks, want %d", m.Member, m.Blocks, want)
		}
	}
	if m := got[3].Member; m != (Member{3, 0}) {
		t.Errorf("fourth match is %v, want worker 3 rank 0", m)
	}
}

// TestIndexPrune checks that pruning changes no answer if block names are unique. TestIndexPrune removes blocks in
// any order, also with random names.
func TestIndexPrune(t *testing.T) {
	pruned := 0
	for seed := range uint64(200) {
		r := sim.NewRand(seed, "prune")
		a, b := NewIndex(), NewIndex()
		names := []uint64{0} // names of all blocks so far, and of the root
		for step := range 400 {
			m := Member{Worker: sim.WorkerID(r.IntN(3)), Rank: int32(r.IntN(2))}
			name := func() uint64 { return names[max(0, len(names)-1-r.IntN(40))] }
			var first, second error
			switch r.IntN(10) {
			case 0:
				a.Clear(m.Worker)
				b.Clear(m.Worker)
			case 1, 2, 3, 4:
				gone := []uint64{name(), name()}
				first, second = a.Remove(m, gone), b.Remove(m, gone)
			default:
				var parent *uint64
				at := uint64(0)
				if p := name(); p != 0 && r.IntN(2) == 0 {
					parent, at = &p, p
				}
				var blocks []scheduler.KVBlock
				for range 1 + r.IntN(4) {
					local := uint64(r.IntN(3))
					if at = blockhash.Chain(at, local); r.IntN(8) == 0 {
						at = r.Uint64()
					}
					names = append(names, at)
					blocks = append(blocks, scheduler.KVBlock{Seq: at, Tokens: local})
				}
				first, second = a.Store(m, parent, blocks), b.Store(m, parent, blocks)
			}
			if fmt.Sprint(first) != fmt.Sprint(second) {
				t.Fatalf("seed %d, step %d: %v, want %v", seed, step, second, first)
			}
			if r.IntN(3) == 0 {
				b.Prune()
			}
			query := make([]uint64, 1+r.IntN(6))
			for i := range query {
				query[i] = uint64(r.IntN(3))
			}
			if got, want := b.Match(query, false, nil), a.Match(query, false, nil); !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d: query %v: %v, want %v", seed, step, query, got, want)
			}
		}
		pruned += countBlocks(a) - countBlocks(b)
		if got, want := b.Reachable(), a.Reachable(); !slices.Equal(got, want) || a.Size() != b.Size() {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
	}
	if pruned < 100 {
		t.Errorf("%d blocks pruned", pruned)
	}
}

// countBlocks counts the blocks of the tree.
func countBlocks(x *Index) int {
	seen := map[*block]bool{x.root: true}
	for stack := []*block{x.root}; len(stack) > 0; {
		b := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		b.children.forEach(func(c *block) {
			if !seen[c] {
				seen[c] = true
				stack = append(stack, c)
			}
		})
	}
	return len(seen)
}
