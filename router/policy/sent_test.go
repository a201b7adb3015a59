package policy

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// TestSentCapacity checks that the latest blocks sent to a worker are remembered, up to the capacity. The first
// blocks of a prompt are forgotten first, and the other blocks cannot be found without them. Unshared prompts use
// capacity too, and each worker has a separate capacity.
func TestSentCapacity(t *testing.T) {
	tree := prompt.NewTree(10, 10, prompt.Options{})
	one, two := tree.Add([]uint64{1, 2}, 20), tree.Add([]uint64{3, 4}, 20)
	both := tree.Add([]uint64{1, 2, 5}, 30)
	s := makeSent(tree, 3, 0)
	want := func(what string, w sim.WorkerID, p *prompt.Prompt, n int32) {
		t.Helper()
		if got := s.match(0, w, p); got != n {
			t.Errorf("%s: %d blocks, want %d", what, got, n)
		}
	}
	s.add(0, 1, &one, 2)
	want("as sent", 1, &one, 2)
	want("longer", 1, &both, 2)
	want("elsewhere", 0, &one, 0)
	s.add(0, 1, &two, 2)
	want("without its first block", 1, &one, 0)
	want("the last", 1, &two, 2)
	s.add(0, 1, &one, 2)
	want("sent again", 1, &one, 2)
	want("now the other", 1, &two, 0)
	s.add(0, 1, &prompt.Prompt{Seed: 1, Blocks: 2}, 2)
	want("beside one of its own", 1, &one, 0)
	if got := s.workers[1].used; got != 3 {
		t.Errorf("%d blocks are remembered, want 3", got)
	}
	s.add(0, 1, &both, 1)
	want("no more than was noted", 1, &both, 1)
}

// TestSentKeep checks that blocks are assumed to be cached for a time after they were last sent. Of a node with many
// blocks, only the blocks of sent prompts count.
func TestSentKeep(t *testing.T) {
	tree := prompt.NewTree(40, 10, prompt.Options{})
	short, long := tree.Add([]uint64{1}, 25), tree.Add([]uint64{1, 2}, 70)
	s := makeSent(tree, 0, 2000)
	s.add(0, 0, &short, 2)
	for _, c := range []struct {
		at   sim.Time
		p    *prompt.Prompt
		want int32
	}{{0, &short, 2}, {1999, &long, 2}, {2000, &long, 0}} {
		if got := s.match(c.at, 0, c.p); got != c.want {
			t.Errorf("at %v: %d blocks, want %d", c.at, got, c.want)
		}
	}
	s.add(1500, 0, &long, 7)
	if got := s.match(3000, 0, &long); got != 7 {
		t.Errorf("%d blocks, want 7", got)
	}
	other := tree.Add([]uint64{9}, 40)
	s.add(4000, 0, &other, 4)
	if r := &s.workers[0]; len(r.at) != 1 || len(r.vacant) != 2 {
		t.Errorf("%d pieces are known and %d to use again, want 1 and 2", len(r.at), len(r.vacant))
	}
}

// sentTwin is a simple model of sent for one worker and nodes of one block: a list of blocks, the most recent last.
type sentTwin struct {
	capacity int
	keep     sim.Time
	blocks   []sentBlock
}

type sentBlock struct {
	prompt, index int
	used          sim.Time
}

// add records the blocks of a prompt.
func (s *sentTwin) add(now sim.Time, prompt, blocks int) {
	for i := range blocks {
		s.blocks = slices.DeleteFunc(s.blocks, func(b sentBlock) bool { return b.prompt == prompt && b.index == i })
		s.blocks = append(s.blocks, sentBlock{prompt, i, now})
	}
	if s.keep > 0 {
		s.blocks = slices.DeleteFunc(s.blocks, func(b sentBlock) bool { return now >= b.used+s.keep })
	}
	if s.capacity > 0 && len(s.blocks) > s.capacity {
		s.blocks = slices.Delete(s.blocks, 0, len(s.blocks)-s.capacity)
	}
}

// match returns the number of leading blocks of a prompt in the list.
func (s *sentTwin) match(now sim.Time, prompt, blocks int) int {
	for i := range blocks {
		if !slices.ContainsFunc(s.blocks, func(b sentBlock) bool {
			return b.prompt == prompt && b.index == i && (s.keep == 0 || now < b.used+s.keep)
		}) {
			return i
		}
	}
	return blocks
}

// TestSentEqualsTwin compares sent with sentTwin, with limits of number, of age, of both and of neither.
func TestSentEqualsTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 92))
	for range 400 {
		tree := prompt.NewTree(10, 10, prompt.Options{})
		var prompts []prompt.Prompt
		for i := range 4 {
			n := 1 + rng.IntN(4)
			hashes := make([]uint64, n)
			for j := range hashes {
				hashes[j] = uint64(10*i + j + 1)
			}
			prompts = append(prompts, tree.Add(hashes, 10*n))
		}
		capacity, keep := rng.IntN(8), sim.Time(rng.IntN(4)*10)
		s, twin, now := makeSent(tree, int64(capacity), keep), &sentTwin{capacity: capacity, keep: keep}, sim.Time(0)
		for range 40 {
			now += sim.Time(rng.IntN(3) * 5)
			i := rng.IntN(len(prompts))
			p := &prompts[i]
			if got, want := s.match(now, 0, p), twin.match(now, i, int(p.Blocks)); int(got) != want {
				t.Fatalf("capacity %d, keep %v, at %v: %d blocks of prompt %d, want %d", capacity, keep, now, got, i, want)
			}
			s.add(now, 0, p, p.Blocks)
			twin.add(now, i, int(p.Blocks))
			if got := s.on(0).used; got != int64(len(twin.blocks)) {
				t.Fatalf("capacity %d, keep %v, at %v: %d blocks are remembered, want %d", capacity, keep, now, got, len(twin.blocks))
			}
		}
	}
}
