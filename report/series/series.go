// Package series records a replay over time in a few hundred bins: arrivals, tokens, the state of each worker and the
// use of its cache. The length of the replay need not be known in advance, and a long replay takes no more memory.
//
// Read series.go (the counted values), bins.go (how bins grow), histogram.go, then file.go (the stored form).
package series

import (
	"github.com/replay-llm/replay/internal/sliding"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Series observes a replay.
type Series struct {
	harness.NoObserver // of handoffs

	all      File // so far, without the workers
	workers  harness.PerWorker[Worker]
	kinds    []string // of the workers of the first stage, where they differ
	requests sliding.List[request]

	limit sim.Time // the end of the last bin
	perMS float64  // bins per ms: a power of 2, like the bin width
}

// request is the record of a request.
type request struct {
	input  int32
	seated [2]bool
	lost   bool
	local  bool // its first stage is decode
}

// entry returns the first stage of a request.
func (q *request) entry() int {
	if q.local {
		return 1
	}
	return 0
}

// New returns an empty series. kinds are the kinds of the workers of the first stage, if they differ. The last kind
// is for all further workers.
func New(kinds ...string) *Series {
	return &Series{all: File{BinMS: 1}, kinds: kinds, limit: most, perMS: 1}
}

// kindOf returns the kind of a worker, "" if all workers are equal.
func (s *Series) kindOf(stage, id int) string {
	if stage == 0 && len(s.kinds) > 0 {
		return s.kinds[min(id, len(s.kinds)-1)]
	}
	return ""
}

// Grow reserves memory for this number of requests.
func (s *Series) Grow(requests int) {
	s.requests.Grow(requests)
}

// Drop removes the data of all requests with smaller ids.
func (s *Series) Drop(before sim.RequestID) { s.requests.Drop(int(before)) }

// Arrived counts a request.
func (s *Series) Arrived(q *sim.Request, at sim.Time) {
	s.requests.Append(request{input: int32(q.InputTokens)})
	s.addAt(&s.all.Arrived, at, 1)
}

// Routed counts a routing decision.
func (s *Series) Routed(stage scheduler.Role, _ sim.Time, p *router.Placement) {
	s.requests.At(int(p.Request.ID)).local = p.Request.Local
	s.workers.At(stage, p.Worker).Requests++
}

// Left counts a request that loses its seat, or that has ended.
func (s *Series) Left(d *harness.Departure) {
	q := s.requests.At(int(d.Request))
	waits := q.lost || !q.seated[q.entry()]
	switch {
	case d.Outcome != collector.Unfinished && waits:
		s.addAt(&s.all.Admitted, d.At, 1)
		fallthrough
	case d.Outcome != collector.Unfinished:
		s.addAt(&s.all.Finished, d.At, 1)
	case !waits:
		s.addAt(&s.all.Lost, d.At, 1)
		q.lost = true
	}
}

// Pass counts a pass or a run of passes.
func (s *Series) Pass(stage scheduler.Role, id sim.WorkerID, p *scheduler.Pass) {
	w := s.workers.At(stage, id)
	s.countAdmissions(stage, w, p)
	s.countTime(w, p)
	w.Passes += p.Count
	w.Tokens += p.Count * p.Tokens
	if stage == scheduler.Prefill {
		return
	}
	if len(p.Ends) == 0 {
		s.all.Gaps.Add(float64(p.Gap), p.Count*p.Decoding)
	}
	s.all.Gaps.addRun(p)
	for _, gap := range p.Gaps {
		s.all.Gaps.Add(float64(gap), 1)
	}
	s.addOver(&s.all.Output, p.FirstEnd()-p.GapOf(0), p.End, float64(p.Count*p.Tokens))
	for i := range p.Marks {
		if p.Marks[i].Last {
			s.addAt(&s.all.Finished, p.End, 1)
		}
	}
}

// countAdmissions counts admissions and preemptions.
func (s *Series) countAdmissions(stage scheduler.Role, w *Worker, p *scheduler.Pass) {
	for i := range p.Admitted {
		a := &p.Admitted[i]
		q := s.requests.At(int(a.Request))
		if entry := q.entry(); stage.Stage() == entry && (!q.seated[entry] || q.lost) {
			s.addAt(&s.all.Admitted, p.Start, 1)
			q.lost = false
		}
		if seat := &q.seated[stage.Stage()]; !*seat {
			*seat = true
			s.addAt(&w.Prompts, p.Start, float64(q.input))
			s.addAt(&w.Reused, p.Start, float64(a.Reused))
		}
	}
	if p.Detail == nil {
		return
	}
	for _, id := range p.Detail.Lost {
		if q := s.requests.At(int(id)); stage.Stage() == q.entry() && !q.lost {
			q.lost = true
			s.addAt(&s.all.Lost, p.Start, 1)
		}
	}
}

// countTime adds the parts of the time of a pass.
func (s *Series) countTime(w *Worker, p *scheduler.Pass) {
	ms, all := float64(p.End-p.Start), s.spanOf(p.Start, p.End)
	s.addSpan(&w.Busy, &all, ms)
	s.addSpan(&w.Batch, &all, ms*float64(p.Tokens))
	if p.PrefillTokens > 0 {
		s.addSpan(&w.Computed, &all, float64(p.Count*p.PrefillTokens))
	}
	d := p.Detail
	if d == nil {
		return
	}
	if d.PrefillEnd > p.Start {
		s.addOver(&w.Prefill, p.Start, d.PrefillEnd, float64(d.PrefillEnd-p.Start))
	}
	w.Blocks = d.Blocks
	s.addSpan(&w.Held, &all, ms*float64(d.Held))
	s.addSpan(&w.Cached, &all, ms*float64(d.Cached))
	if d.Waiting > 0 {
		s.addSpan(&w.Waiting, &all, ms*float64(d.Waiting))
	}
}

// addAt adds n at a given time.
func (s *Series) addAt(b *bins, at sim.Time, n float64) {
	b.add(s.binOf(at), n)
}

// addOver spreads n evenly over a time span.
func (s *Series) addOver(b *bins, from, to sim.Time, n float64) {
	x := s.spanOf(from, to)
	s.addSpan(b, &x, n)
}

// span is a time span, with the bins in which it begins and ends.
type span struct {
	from, to    sim.Time
	first, last int
}

// spanOf returns a span. spanOf may widen the bins.
func (s *Series) spanOf(from, to sim.Time) span {
	last := s.binOf(to) // computed first, since it may widen the bins
	return span{from, to, s.binOf(from), last}
}

// addSpan spreads n evenly over a span.
func (s *Series) addSpan(b *bins, x *span, n float64) {
	if x.first == x.last || x.to <= x.from {
		b.add(x.last, n)
		return
	}
	per := n / float64(x.to-x.from)
	width := sim.Time(s.all.BinMS)
	for i := x.first; i <= x.last; i++ {
		left := max(x.from, sim.Time(i)*width)
		right := min(x.to, sim.Time(i+1)*width)
		if right > left {
			b.add(i, per*float64(right-left))
		}
	}
}

// binOf returns the bin of a time. If there is no bin, binOf widens the bins.
func (s *Series) binOf(at sim.Time) int {
	if at >= s.limit {
		s.widenBins(at)
	}
	return int(float64(at) * s.perMS)
}

// widenBins doubles the width of the bins until a time is in a bin.
func (s *Series) widenBins(at sim.Time) {
	for float64(at) >= most*s.all.BinMS {
		s.all.BinMS *= 2
		foldAll(s.all.listBins())
		for _, workers := range s.workers {
			for i := range workers {
				foldAll(workers[i].listBins())
			}
		}
	}
	s.limit, s.perMS = sim.Time(most*s.all.BinMS), 1/s.all.BinMS
}

func foldAll(all []*bins) {
	for _, b := range all {
		b.foldTwice()
	}
}
