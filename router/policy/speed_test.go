package policy

import (
	"fmt"
	"testing"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// load is a router in the middle of a trace. Requests with 25 nodes, of which 5 are shared, run and leave, and
// workers cache their prompts.
type load struct {
	d       *router.Dispatcher
	sent    []*sim.Request
	next    int
	running []sim.RequestID
	placed  []router.Placement
	pass    scheduler.Pass
	tree    *prompt.Tree
}

const flights = 4 // requests in flight per worker

func newLoad(tb testing.TB, workers, perNode int) *load {
	tb.Helper()
	const nodes = 25
	tree := prompt.NewTree(64*perNode, 64, prompt.Options{})
	l := &load{tree: tree}
	for i := range 4000 {
		ids := make([]uint64, nodes)
		for k := range ids {
			ids[k] = uint64(k)
			if k >= 5 {
				ids[k] = uint64(1000 + i/4*nodes + k) // four requests have the same suffix
			}
		}
		tokens := nodes*64*perNode - 70
		l.sent = append(l.sent, &sim.Request{ID: sim.RequestID(i), InputTokens: tokens, Prompt: tree.Add(ids, tokens)})
	}
	l.d = setup{Config: router.DefaultConfig(), Workers: workers, Tree: tree}.dispatcher(tb)
	for range 2 * len(l.sent) {
		l.step(tb)
	}
	return l
}

// step routes a request and ends one if too many are in flight.
func (l *load) step(tb testing.TB) {
	q := l.sent[l.next%len(l.sent)]
	l.next++
	var err error
	if l.placed, err = l.d.Route(0, q, l.placed[:0]); err != nil || len(l.placed) != 1 {
		tb.Fatalf("placed %v, error %v", l.placed, err)
	}
	l.running = append(l.running, q.ID)
	l.pass.KV = l.pass.KV[:0]
	for _, n := range q.Prompt.Nodes {
		l.pass.KV = append(l.pass.KV, scheduler.KVChange{Node: n, Blocks: min(l.tree.Size(n), q.Prompt.Blocks-l.tree.Start(n))})
	}
	if err := l.d.Observe(l.placed[0].Worker, &l.pass); err != nil {
		tb.Fatal(err)
	}
	if len(l.running) < flights*len(l.d.Workers()) {
		return
	}
	id := l.running[0]
	copy(l.running, l.running[1:])
	l.running = l.running[:len(l.running)-1]
	if l.placed, err = l.d.PrefillDone(0, id, l.placed[:0]); err == nil {
		l.placed, err = l.d.Finished(0, id, l.placed[:0])
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// TestAllocations checks that a warm router allocates nothing.
func TestAllocations(t *testing.T) {
	for _, perNode := range []int{1, 8} {
		l := newLoad(t, 8, perNode)
		if got := testing.AllocsPerRun(500, func() { l.step(t) }); got != 0 {
			t.Errorf("%d blocks per node: %v allocations per request, want 0", perNode, got)
		}
	}
}

// BenchmarkRequest measures all calls for a request: Route, Observe, PrefillDone and Finished.
func BenchmarkRequest(b *testing.B) {
	for _, workers := range []int{8, 64, 256, 512, 1000} {
		for _, perNode := range []int{1, 8} {
			b.Run(fmt.Sprintf("workers=%d/perNode=%d", workers, perNode), func(b *testing.B) {
				l := newLoad(b, workers, perNode)
				b.ReportAllocs()
				for b.Loop() {
					l.step(b)
				}
			})
		}
	}
}

// BenchmarkRoute measures Route alone. The request is withdrawn while the timer is stopped, which adds some noise.
func BenchmarkRoute(b *testing.B) {
	for _, workers := range []int{8, 64, 256, 512, 1000} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			l := newLoad(b, workers, 1)
			for l.next%len(l.sent) != 0 {
				l.step(b)
			}
			for _, id := range l.running[1:] {
				if _, err := l.d.Finished(0, id, nil); err != nil {
					b.Fatal(err)
				}
			}
			batch := l.sent[:min(flights*workers, len(l.sent))]
			for i := 0; i < b.N; {
				b.StartTimer()
				for _, q := range batch {
					l.placed, _ = l.d.Route(0, q, l.placed[:0])
				}
				i += len(batch)
				b.StopTimer()
				for _, q := range batch {
					if _, err := l.d.Finished(0, q.ID, nil); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
