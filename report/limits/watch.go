package limits

import (
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Watch observes a replay. Watch keeps the ledgers, the reasons of waits in queues, and the gaps between tokens.
type Watch struct {
	*ledger.Book
	engines []engineargs.PassLimits // of the stages
	window  collector.Window

	since map[sim.RequestID]sim.Time // requests in queues, and from when on
	waits map[sim.RequestID]*waits
	lines harness.PerWorker[line]
	gaps  []gap
}

// NewWatch returns a watch of a cluster of the given stages: one, or prefill and decode. A stage with workers of
// several kinds has a nil engine. Only gaps in the window count.
func NewWatch(book *ledger.Book, window collector.Window, stages ...*engineargs.Args) *Watch {
	book.KeepFirsts()
	w := &Watch{Book: book, window: window, since: map[sim.RequestID]sim.Time{}, waits: map[sim.RequestID]*waits{}}
	for _, a := range stages {
		var e engineargs.PassLimits
		if a != nil {
			e = a.PassLimits()
		}
		w.engines = append(w.engines, e)
	}
	return w
}

// Routed records the time at which a request enters the queue of an engine.
func (w *Watch) Routed(stage scheduler.Role, at sim.Time, p *router.Placement) {
	w.Book.Routed(stage, at, p)
	w.since[p.Request.ID] = max(at, w.since[p.Request.ID])
}

// Handoff records the time at which a KV cache reaches the decode worker.
func (w *Watch) Handoff(id sim.RequestID, from, to sim.Time) {
	w.Book.Handoff(id, from, to)
	w.since[id] = to
}

// Left records that a request left its queue.
func (w *Watch) Left(d *harness.Departure) {
	w.Book.Left(d)
	delete(w.since, d.Request)
}

// Pass records the effects of a pass on queued and decoding requests.
func (w *Watch) Pass(stage scheduler.Role, id sim.WorkerID, p *scheduler.Pass) {
	w.Book.Pass(stage, id, p)
	l := w.lines.At(stage, id)
	e := &w.engines[stage.Stage()]
	for i := range p.Admitted {
		request := p.Admitted[i].Request
		since, ok := w.since[request]
		if !ok {
			continue
		}
		delete(w.since, request)
		if e.Known {
			if w.waits[request] == nil {
				w.waits[request] = &waits{}
			}
			w.waits[request].add(l, since, p.Start, e.Ahead)
		}
	}
	if e.Known {
		l.addPass(p, reasonOf(e, p))
	}
	if stage != scheduler.Prefill {
		w.addGaps(p)
	}
}
