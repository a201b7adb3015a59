package router

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// weigher is a policy that adds up all facts that it needs and chooses the worker with the smallest sum.
type weigher struct{ needs Needs }

func (p *weigher) Needs() Needs { return p.needs }

func (p *weigher) Choose(_ *sim.Request, c *Candidates) Choice {
	best := Choice{Worker: None, Second: None}
	for _, w := range c.Workers {
		cost := float64(c.Running[w]) + float64(c.Tokens[w]) + 3*float64(c.Blocks[w]) - 5*float64(c.Overlap[w]) - 2*float64(c.Active[w])
		if best.Worker == None || cost < best.Cost {
			best.Worker, best.Cost = w, cost
		}
	}
	return best
}

// hashTwin sends the same requests to two dispatchers: one has the tree of prompts, the other uses hashes.
type hashTwin struct {
	t     *testing.T
	tree  *prompt.Tree
	plain *Dispatcher
	live  *Dispatcher
	index *Index
	now   sim.Time
	sent  []*sim.Request
	done  map[int]bool // requests after their prefill
	known map[sim.RequestID]*hashesOf
}

type hashesOf struct {
	sequence []uint64
	cached   []Match
}

func (l *hashTwin) Sequence(id sim.RequestID) []uint64 { return l.known[id].sequence }
func (l *hashTwin) Cached(id sim.RequestID) []Match    { return l.known[id].cached }

func (l *hashTwin) note(placed []Placement, err error, live []Placement, liveErr error) {
	l.t.Helper()
	if !slices.Equal(placed, live) || (err == nil) != (liveErr == nil) || l.plain.Queued() != l.live.Queued() {
		l.t.Fatalf("at %v: by hashes: %+v %v, %d held, want %+v %v, %d held", l.now, live, liveErr, l.live.Queued(), placed, err, l.plain.Queued())
	}
}

func (l *hashTwin) arrive(q *sim.Request) {
	l.t.Helper()
	l.sent = append(l.sent, q)
	local, seq := l.tree.Hashes(q.Prompt)
	l.known[q.ID] = &hashesOf{seq, l.index.Match(local, false, nil)}
	a, err := l.plain.Route(l.now, q, nil)
	b, liveErr := l.live.Route(l.now, q, nil)
	l.note(a, err, b, liveErr)
}

func (l *hashTwin) advance(rng *rand.Rand) {
	l.t.Helper()
	if len(l.sent) == 0 {
		return
	}
	i := rng.IntN(len(l.sent))
	q := l.sent[i]
	if _, placed := l.plain.findRecord(q.ID); !placed {
		if a, b := l.plain.Withdraw(q.ID), l.live.Withdraw(q.ID); a != b {
			l.t.Fatalf("request %d is held by one alone", q.ID)
		}
		return
	}
	change, liveChange := l.plain.Finished, l.live.Finished
	if !l.done[i] && rng.IntN(3) > 0 {
		l.done[i] = true
		change, liveChange = l.plain.PrefillDone, l.live.PrefillDone
	}
	a, err := change(l.now, q.ID, nil)
	b, liveErr := liveChange(l.now, q.ID, nil)
	l.note(a, err, b, liveErr)
}

// TestHashTwin checks that prompts with hashes are placed like prompts of a tree, for every policy.
func TestHashTwin(t *testing.T) {
	held, seeds := 0, long.Cases(uint64(50), 200)
	for seed := range seeds {
		rng := sim.NewRand(seed, "live")
		workers := 1 + rng.IntN(5)
		needs := Needs{Running: true, Tokens: rng.IntN(6) > 0, Blocks: rng.IntN(5) > 0, Overlap: rng.IntN(5) > 0}
		needs.Shared = needs.Blocks && rng.IntN(5) > 0
		if rng.IntN(4) > 0 {
			needs.Hold = &Hold{Tokens: []float64{0, 8, 16, 64}[rng.IntN(4)], Order: QueueOrder(rng.IntN(3))}
		}
		asked, tree := prompts(rng, shape{8, 4, false}, 40)
		l := &hashTwin{t: t, tree: tree, index: NewIndex(), done: map[int]bool{}, known: map[sim.RequestID]*hashesOf{}}
		l.plain = New(Options{Policy: &weigher{needs}, Workers: workers, Tree: tree, Exact: true})
		l.live = New(Options{Policy: &weigher{needs}, Workers: workers, Hashes: l, BlockTokens: 4})
		caches := make([]cache, workers)
		for w := range workers {
			caches[w] = cache{}
		}
		for range 400 {
			l.now += sim.Time(rng.IntN(100)) / 4
			switch rng.IntN(8) {
			case 0, 1:
				l.cache(rng, caches, asked)
			case 2, 3, 4:
				q := asked[rng.IntN(len(asked))]
				l.arrive(&sim.Request{ID: sim.RequestID(len(l.sent)), InputTokens: int(q.Blocks)*4 + 1 + rng.IntN(3), OutputTokens: 2, Prompt: q})
			case 5:
				l.resize(rng, workers)
			default:
				l.advance(rng)
			}
			held += l.plain.Queued()
		}
	}
	if held == 0 {
		t.Error("no request was ever held")
	}
}

// cache changes a worker's cache at random.
func (l *hashTwin) cache(rng *rand.Rand, caches []cache, asked []prompt.Prompt) {
	l.t.Helper()
	w := rng.IntN(len(caches))
	p := &scheduler.Pass{Count: 1}
	if q := asked[rng.IntN(len(asked))]; q.Blocks > 0 {
		caches[w].fill(l.tree, q, 1+rng.IntN(int(q.Blocks)), p)
	}
	if rng.IntN(3) == 0 {
		caches[w].evict(rng, p)
	}
	if err := l.plain.Observe(sim.WorkerID(w), p); err != nil {
		l.t.Fatal(err)
	}
	for _, e := range p.Events {
		if err := l.index.Apply(sim.WorkerID(w), e); err != nil {
			l.t.Fatal(err)
		}
	}
}

// resize removes or adds a worker.
func (l *hashTwin) resize(rng *rand.Rand, workers int) {
	l.t.Helper()
	w := sim.WorkerID(rng.IntN(workers))
	change, liveChange := l.plain.AddWorker, l.live.AddWorker
	if slices.Contains(l.plain.Workers(), w) {
		if len(l.plain.Workers()) == 1 {
			return
		}
		change, liveChange = l.plain.RemoveWorker, l.live.RemoveWorker
	}
	if a, b := change(w), liveChange(w); a != nil || b != nil {
		l.t.Fatalf("worker %d: %v, %v", w, a, b)
	}
	a, err := l.plain.Drain(l.now, nil)
	b, liveErr := l.live.Drain(l.now, nil)
	l.note(a, err, b, liveErr)
}

// TestNamesAndHashes checks that candidates are sorted by name, and that hashes belong to the right requests.
func TestNamesAndHashes(t *testing.T) {
	l := &hashTwin{known: map[sim.RequestID]*hashesOf{}}
	names := []uint64{7, 3, 5}
	d := New(Options{
		Policy: &weigher{Needs{Running: true, Tokens: true, Blocks: true, Shared: true, Hold: &Hold{Tokens: 8}}},
		Hashes: l, BlockTokens: 4, Names: func(w sim.WorkerID) uint64 { return names[w] },
	})
	for w := range names {
		if err := d.AddWorker(sim.WorkerID(w)); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(d.Workers()); got != "[1 2 0]" {
		t.Errorf("candidates %s, want them by name", got)
	}
	var placed []Placement
	for id := range sim.RequestID(5) {
		l.known[id] = &hashesOf{sequence: []uint64{1, 2}}
		var err error
		if placed, err = d.Route(0, &sim.Request{ID: id, InputTokens: 9, Prompt: prompt.Prompt{Blocks: 2}}, placed); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(placed[0].Worker, placed[1].Worker, placed[2].Worker, d.Queued()); got != "1 2 0 2" {
		t.Errorf("placed on, and held: %s", got)
	}
	if !d.Withdraw(3) || d.Withdraw(3) || d.Withdraw(0) || d.Queued() != 1 {
		t.Errorf("%d held after one was taken back", d.Queued())
	}
	for _, id := range []sim.RequestID{0, 1, 2, 4, 4, 9} {
		if _, err := d.Finished(1, id, nil); err != nil {
			t.Fatal(err)
		}
	}
	for w, holders := range d.loads.(*hashLoads).holders {
		if c := d.Loads(); len(holders) != 0 || c.Running[w] != 0 || c.Blocks[w] != 0 || c.Tokens[w] != 0 {
			t.Errorf("worker %d has something left: %v %+v", w, holders, c)
		}
	}
}
