package ledger_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// A request waits, computes its prompt, is preempted, returns, and decodes together with another request.
func TestBook(t *testing.T) {
	engine := &ledger.Engine{Clock: timing.Clock{Model: steady{}}, Blocks: 100, Block: 10}
	b := ledger.NewBook(nil, engine)
	b.KeepFirsts()
	first := &sim.Request{ID: 0, InputTokens: 30, OutputTokens: 6}
	second := &sim.Request{ID: 1, InputTokens: 20, OutputTokens: 3}
	pass := func(p scheduler.Pass, d scheduler.Detail) {
		p.Count, p.Gap, p.Detail = max(p.Count, 1), p.End-p.Start, &d
		b.Pass(scheduler.Aggregated, 0, &p)
	}
	b.Arrived(first, 0)
	b.Routed(scheduler.Aggregated, 0, &router.Placement{Request: first})
	b.Arrived(second, 1)
	b.Routed(scheduler.Aggregated, 5, &router.Placement{Request: second, Blocks: 2}) // held for 4 ms
	// 0..12: the first computes 10 ms, then 2 ms for its first token.
	pass(scheduler.Pass{End: 12, Admitted: []scheduler.Admission{{Request: 0}}, Marks: []scheduler.Mark{{Request: 0, First: true, Tokens: 1}}},
		scheduler.Detail{PrefillEnd: 10, Work: []scheduler.Work{{Request: 0, Prompt: 30}}})
	// 12..22: the second computes 7 ms, both decode in 3 ms.
	pass(scheduler.Pass{Start: 12, End: 22, Admitted: []scheduler.Admission{{Request: 1}}, Marks: []scheduler.Mark{{Request: 1, First: true, Tokens: 1}}},
		scheduler.Detail{PrefillEnd: 19, Work: []scheduler.Work{{Request: 1, Prompt: 20}}})
	// 22..28: the second is preempted; the first decodes alone, 3 passes.
	pass(scheduler.Pass{Start: 22, End: 28, Count: 3}, scheduler.Detail{PrefillEnd: 22, Lost: []sim.RequestID{1}})
	// 28..40: the second returns and computes 8 ms again; the first ends.
	pass(scheduler.Pass{Start: 28, End: 40, Admitted: []scheduler.Admission{{Request: 1}}, Marks: []scheduler.Mark{{Request: 0, Last: true, Tokens: 6}}},
		scheduler.Detail{PrefillEnd: 36, Work: []scheduler.Work{{Request: 1, Prompt: 20, Recomputed: 1}}})
	// 40..42: the second ends alone.
	pass(scheduler.Pass{Start: 40, End: 42, Marks: []scheduler.Mark{{Request: 1, Last: true, Tokens: 3}}}, scheduler.Detail{PrefillEnd: 40})

	for id, want := range []ledger.Entry{
		{ledger.Prefill: 10, ledger.Others: 7 + 8, ledger.Alone: 6 * 1.5, ledger.Stretched: 2 + 3 + 6 + 4 - 6*1.5},
		{ledger.Router: 4, ledger.Queue: 7, ledger.Prefill: 7, ledger.Recompute: 6 + 8, ledger.Alone: 3 * 1.5, ledger.Stretched: 3 + 4 + 2 - 3*1.5},
	} {
		got, ok := b.Entry(sim.RequestID(id))
		if !ok || got != want {
			t.Errorf("request %d: %v, %v\nwant %v", id, got, ok, want)
		}
	}
	// The ledgers up to the first tokens, which are at 12 and at 22.
	for id, want := range []ledger.Entry{
		{ledger.Prefill: 10, ledger.Stretched: 2},
		{ledger.Router: 4, ledger.Queue: 7, ledger.Prefill: 7, ledger.Stretched: 3},
	} {
		if got, ok := b.First(sim.RequestID(id)); !ok || got != want {
			t.Errorf("request %d up to its first token: %v, %v\nwant %v", id, got, ok, want)
		}
	}
}

// steady is a timing model in which any decode step takes 1.5 ms.
type steady struct{}

func (steady) Prefill(int, int, int) float64     { return 0 }
func (steady) Decode(int, int, int, int) float64 { return 1.5 }
func (steady) ByContext() bool                   { return false }

// The book equals a simple implementation that reads every request in every pass.
func TestBookAgreesWithOneThatLooksAtEveryPass(t *testing.T) {
	for name, spec := range preempting() {
		t.Run(name, func(t *testing.T) {
			book, naive := ledger.NewBook(nil, engines(t, &spec)...), &witness{}
			book.KeepFirsts()
			result, err := spec.Run(context.Background(), replay.Streams{Observer: both{book, naive}})
			if err != nil {
				t.Fatal(err)
			}
			lost := 0.0
			for id := range result.Collector.Requests() {
				got, ok := book.Entry(id)
				want := naive.requests[id]
				decode := got[ledger.Alone] + got[ledger.Stretched]
				for part, ms := range map[string][2]float64{
					"queue": {got[ledger.Queue], want.queue}, "prefill": {got[ledger.Prefill], want.prefill},
					"others": {got[ledger.Others], want.others}, "recompute": {got[ledger.Recompute], want.recompute}, "decode": {decode, want.decode},
				} {
					if !ok || math.Abs(ms[0]-ms[1]) > 1e-6 {
						t.Fatalf("request %d: %s is %v ms, want %v", id, part, ms[0], ms[1])
					}
				}
				lost += got[ledger.Recompute]
				first, _ := book.First(id)
				if ttft := float64(result.Collector.Record(id).TTFT()); math.Abs(first.Sum()-ttft) > 1e-6 {
					t.Fatalf("request %d: the parts up to its first token sum to %v ms, which comes after %v", id, first.Sum(), ttft)
				}
			}
			if lost == 0 {
				t.Error("no request lost its place, want some to")
			}
		})
	}
}

// preempting returns replays with preemptions.
func preempting() map[string]replay.Spec {
	specs := map[string]replay.Spec{}
	for _, engine := range []engineargs.Engine{engineargs.VLLM, engineargs.SGLang} {
		a := engineargs.Default()
		a.Engine, a.Blocks, a.BlockTokens, a.MaxBatchedTokens = engine, 24, 16, 256
		a.SGLang = engineargs.SGLangArgs{Policy: "fifo", MaxPrefillTokens: 256, ChunkTokens: 128, ClipNewTokens: 8, Conservativeness: 0.1}
		specs[engine.String()] = replay.Spec{
			Synthetic: loadgen.Synthetic{Requests: 80, Input: 100, Output: 60, Interval: 10},
			Mode:      loadgen.Trace, Speedup: 1, Topology: replay.Topology{Pools: replay.OnePool(a, 2), Seed: 1},
		}
	}
	return specs
}

// both passes the events of a replay to two observers.
type both struct {
	*ledger.Book
	second *witness
}

func (b both) Arrived(q *sim.Request, at sim.Time) {
	b.Book.Arrived(q, at)
	b.second.arrived(at)
}

func (b both) Routed(stage scheduler.Role, at sim.Time, p *router.Placement) {
	b.Book.Routed(stage, at, p)
	b.second.requests[p.Request.ID].worker = p.Worker
}

func (b both) Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	b.Book.Pass(stage, w, p)
	b.second.pass(w, p)
}

// witness sums the time of each pass for each request of its worker.
type witness struct{ requests []life }

type life struct {
	worker                                    sim.WorkerID
	since                                     sim.Time
	seated, ever, lost, done                  bool
	queue, prefill, others, recompute, decode float64
}

func (w *witness) arrived(at sim.Time) { w.requests = append(w.requests, life{since: at}) }

func (w *witness) pass(id sim.WorkerID, p *scheduler.Pass) {
	for i := range w.requests {
		r := &w.requests[i]
		if r.worker == id && !r.done && r.since < p.End {
			r.pass(sim.RequestID(i), p)
		}
	}
}

func (r *life) pass(id sim.RequestID, p *scheduler.Pass) {
	if slices.ContainsFunc(p.Admitted, func(a scheduler.Admission) bool { return a.Request == id }) && !r.seated {
		r.wait(p.Start)
		r.seated, r.ever = true, true
	}
	if slices.Contains(p.Detail.Lost, id) && r.seated {
		r.seated, r.lost = false, true
	}
	if !r.seated {
		if r.ever {
			r.wait(p.End)
		}
		return
	}
	prefill := float64(p.Detail.PrefillEnd - p.Start)
	switch own := slices.ContainsFunc(p.Detail.Work, func(w scheduler.Work) bool { return w.Request == id }); {
	case own && r.lost:
		r.recompute += prefill
	case own:
		r.prefill += prefill
	default:
		r.others += prefill
	}
	r.decode += float64(p.End-p.Start) - prefill
	r.since = p.End
	r.done = slices.ContainsFunc(p.Marks, func(m scheduler.Mark) bool { return m.Request == id && m.Last })
}

// wait adds time without a seat.
func (r *life) wait(until sim.Time) {
	if r.ever {
		r.recompute += float64(until - r.since)
	} else {
		r.queue += float64(until - r.since)
	}
	r.since = until
}
