package explain

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/requests"
)

// Hold is the time for which one request delayed another request, in ms.
type Hold struct {
	Request int     // index of the request that caused the delay
	Prefill float64 // computing its own prompt while the other waited
	Ahead   float64 // having a place while the other was in the queue, prompts aside
	Decode  float64 // decoding in the same passes
}

// Total returns the sum of all parts of the delay, in ms.
func (h *Hold) Total() float64 { return h.Prefill + h.Ahead + h.Decode }

// span is a time span on a worker, in ms.
type span struct {
	worker   int32
	decode   bool // the worker is of the decode stage
	from, to float64
}

// overlapWith returns the time that two spans on the same worker have in common, in ms.
func (s span) overlapWith(o span) float64 {
	if s.worker != o.worker || s.decode != o.decode {
		return 0
	}
	return max(0, min(s.to, o.to)-max(s.from, o.from))
}

// Blame returns the requests that delayed a request, and the delays, the largest first.
func (r *Run) Blame(id int) []Hold {
	me := &r.Rows[id]
	if !me.Finished() {
		return nil
	}
	holds := make([]Hold, len(r.Rows))
	for i := range holds {
		holds[i].Request = i
	}
	mine := spansOf(me)
	queued := 0.0
	for _, w := range mine.queued {
		queued += w.to - w.from
	}
	if r.Log != nil {
		queued -= r.blamePrompts(id, mine.queued, holds)
		r.blamePrompts(id, mine.placed, holds)
	}
	ahead := shareAmong(r.Rows, id, queued, func(o *requests.Row) float64 { return overlapTotal(mine.queued, spansOf(o).placed) })
	decode := shareAmong(r.Rows, id, float64(me.Parts[ledger.Stretched]), func(o *requests.Row) float64 {
		return mine.decoding.overlapWith(spansOf(o).decoding) * (float64(o.Input) + float64(o.Tokens)/2)
	})
	for i := range holds {
		holds[i].Ahead, holds[i].Decode = ahead[i], decode[i]
	}
	holds = slices.DeleteFunc(holds, func(h Hold) bool { return h.Total() == 0 })
	stable.Sort(holds, func(a, b Hold) int { return cmp.Compare(b.Total(), a.Total()) })
	return holds
}

// blamePrompts divides the prefill time of passes within spans among the requests with prompt tokens in these passes,
// and returns the sum. blamePrompts excludes passes with prompt tokens of request id.
func (r *Run) blamePrompts(id int, spans []span, holds []Hold) float64 {
	sum := 0.0
	work := r.Log.Work
	for first := 0; first < len(work); {
		last := first + 1
		own := int(work[first].Request) == id
		for last < len(work) && samePass(&work[first], &work[last]) {
			own = own || int(work[last].Request) == id
			last++
		}
		pass := span{work[first].Worker, work[first].Decode, work[first].Start, work[first].End}
		ms := overlapTotal(spans, []span{pass})
		for i := first; i < last && ms > 0 && !own; i++ {
			part := ms * float64(work[i].Tokens) / float64(work[i].All)
			holds[work[i].Request].Prefill += part
			sum += part
		}
		first = last
	}
	return sum
}

func samePass(a, b *ledger.Work) bool {
	return a.Start == b.Start && a.Worker == b.Worker && a.Decode == b.Decode
}

// shareAmong divides ms among all requests except id, in proportion to their weights.
func shareAmong(rows []requests.Row, id int, ms float64, weight func(*requests.Row) float64) []float64 {
	parts, all := make([]float64, len(rows)), 0.0
	for i := range rows {
		if i != id && rows[i].Counted() {
			parts[i] = weight(&rows[i])
			all += parts[i]
		}
	}
	for i := range parts {
		if all == 0 || ms <= 0 {
			parts[i] = 0
			continue
		}
		parts[i] = ms * parts[i] / all
	}
	return parts
}

func overlapTotal(a, b []span) float64 {
	ms := 0.0
	for _, x := range a {
		for _, y := range b {
			ms += x.overlapWith(y)
		}
	}
	return ms
}

// spans holds the time spans of a request on its workers.
type spans struct {
	queued   []span // in queues of engines
	placed   []span // with a place in an engine
	decoding span
}

func spansOf(r *requests.Row) spans {
	arrived := r.Arrival
	if ms := r.Parts[ledger.FrontEnd]; ms.Known() {
		arrived += ms
	}
	if r.Parts[ledger.Router] > 0 {
		arrived = r.Routed
	}
	worker := func(from, to requests.MS) span {
		return span{int32(r.Worker), r.PrefillWorker.Known(), float64(from), float64(to)}
	}
	if !r.PrefillWorker.Known() {
		return spans{[]span{worker(arrived, r.Admit)}, []span{worker(r.Admit, r.Last)}, worker(r.First, r.Last)}
	}
	prefill := func(from, to requests.MS) span {
		return span{int32(r.PrefillWorker), false, float64(from), float64(to)}
	}
	decoding := worker(r.DecodeAdmit, r.Last)
	return spans{
		queued:   []span{prefill(arrived, r.Admit), worker(r.DecodeStart, r.DecodeAdmit)},
		placed:   []span{prefill(r.Admit, r.PrefillEnd), decoding},
		decoding: decoding,
	}
}
