package policy

import (
	"testing"

	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Of the blocks sent to a worker the last ones are remembered: of a prompt the first blocks
// are forgotten first, and without them the rest is of no use. Prompts that nobody shares
// take room too, and other workers have their own.
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

// Blocks are believed in for a time since they were last sent; a node of many blocks counts
// as far as the prompts that were sent go.
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
