// Package series follows a replay over time in a few hundred bins: arrivals,
// tokens, what each worker was doing and how full its cache was. It does not
// need to know how long the replay will be, and takes no more room for a long
// one.
//
// Read series.go (what is counted), bins.go (how bins grow), histogram.go,
// workers.go, then file.go.
package series

import (
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Series observes a replay.
type Series struct {
	harness.NoObserver // of handoffs

	grid     grid
	arrived  bins // requests
	admitted bins // requests, when they get a place; again after they have lost it
	lost     bins // requests that lost their place
	finished bins // requests
	output   bins // tokens gained that count
	workers  [2][]*worker
	gaps     Histogram // between tokens
	requests []request
}

// worker is what one worker did.
type worker struct {
	blocks   int
	busy     bins // ms
	held     bins // blocks, times ms
	cached   bins // blocks without a holder, times ms
	batch    bins // requests that gain a token in a pass, times ms
	waiting  bins // requests in the queue, times ms
	prefill  bins // ms of prefill parts
	computed bins // prompt tokens computed
	prompts  bins // prompt tokens of requests admitted for the first time
	reused   bins // those of them found in a cache
	passes   int
	tokens   int
	taken    int // requests
}

// request is what is to be remembered of one.
type request struct {
	input  int32
	seated [2]bool
	lost   bool
}

// New returns a series that expects some number of requests.
func New(requests int) *Series {
	return &Series{grid: grid{width: 1}, requests: make([]request, 0, requests)}
}

// Grow makes room for so many requests.
func (s *Series) Grow(requests int) {
	s.requests = append(make([]request, 0, len(s.requests)+requests), s.requests...)
}

// Arrived counts a request.
func (s *Series) Arrived(q *sim.Request, at sim.Time) {
	s.requests = append(s.requests, request{input: int32(q.InputTokens)})
	s.addAt(&s.arrived, at, 1)
}

// Routed counts a placement.
func (s *Series) Routed(stage scheduler.Role, _ sim.Time, p *router.Placement) {
	s.workerOf(stage, p.Worker).taken++
}

// Pass counts a pass or a run of passes.
func (s *Series) Pass(stage scheduler.Role, id sim.WorkerID, p *scheduler.Pass) {
	w := s.workerOf(stage, id)
	s.countAdmissions(stage, w, p)
	s.countTime(w, p)
	w.passes += p.Count
	w.tokens += p.Count * p.Tokens
	if stage == scheduler.Prefill {
		return
	}
	s.gaps.Add(float64(p.Gap), p.Count*p.Decoding)
	for _, gap := range p.Gaps {
		s.gaps.Add(float64(gap), 1)
	}
	s.addOver(&s.output, p.FirstEnd()-p.Gap, p.End, float64(p.Count*p.Tokens))
	for i := range p.Marks {
		if p.Marks[i].Last {
			s.addAt(&s.finished, p.End, 1)
		}
	}
}

// countAdmissions counts who gets and who loses a place.
func (s *Series) countAdmissions(stage scheduler.Role, w *worker, p *scheduler.Pass) {
	for i := range p.Admitted {
		a := &p.Admitted[i]
		q := &s.requests[a.Request]
		if stage != scheduler.Decode && (!q.seated[0] || q.lost) {
			s.addAt(&s.admitted, p.Start, 1)
			q.lost = false
		}
		if seat := &q.seated[stage.Stage()]; !*seat {
			*seat = true
			s.addAt(&w.prompts, p.Start, float64(q.input))
			s.addAt(&w.reused, p.Start, float64(a.Reused))
		}
	}
	if p.Detail == nil {
		return
	}
	for _, id := range p.Detail.Lost {
		if q := &s.requests[id]; stage != scheduler.Decode && !q.lost {
			q.lost = true
			s.addAt(&s.lost, p.Start, 1)
		}
	}
}

// countTime counts what the time of a pass went to.
func (s *Series) countTime(w *worker, p *scheduler.Pass) {
	ms := float64(p.End - p.Start)
	s.addOver(&w.busy, p.Start, p.End, ms)
	s.addOver(&w.batch, p.Start, p.End, ms*float64(p.Tokens))
	if p.PrefillTokens > 0 {
		s.addOver(&w.computed, p.Start, p.End, float64(p.Count*p.PrefillTokens))
	}
	d := p.Detail
	if d == nil {
		return
	}
	if d.PrefillEnd > p.Start {
		s.addOver(&w.prefill, p.Start, d.PrefillEnd, float64(d.PrefillEnd-p.Start))
	}
	w.blocks = d.Blocks
	s.addOver(&w.held, p.Start, p.End, ms*float64(d.Held))
	s.addOver(&w.cached, p.Start, p.End, ms*float64(d.Cached))
	if d.Waiting > 0 {
		s.addOver(&w.waiting, p.Start, p.End, ms*float64(d.Waiting))
	}
}

// addAt adds n at an instant.
func (s *Series) addAt(b *bins, at sim.Time, n float64) {
	b.add(s.binOf(at), n)
}

// addOver adds n evenly over a time.
func (s *Series) addOver(b *bins, from, to sim.Time, n float64) {
	last := s.binOf(to) // first, for it may make the bins wider
	first := s.binOf(from)
	if first == last || to <= from {
		b.add(last, n)
		return
	}
	per := n / float64(to-from)
	for i := first; i <= last; i++ {
		left := max(from, sim.Time(i)*s.grid.width)
		right := min(to, sim.Time(i+1)*s.grid.width)
		if right > left {
			b.add(i, per*float64(right-left))
		}
	}
}

// binOf is the place of an instant. When there is none the bins become twice as
// wide.
func (s *Series) binOf(at sim.Time) int {
	for at >= s.grid.binEnd() {
		s.grid.width *= 2
		for _, b := range s.allBins() {
			b.foldTwice()
		}
	}
	return int(at / s.grid.width)
}

// allBins are all bins there are.
func (s *Series) allBins() []*bins {
	all := []*bins{&s.arrived, &s.admitted, &s.lost, &s.finished, &s.output}
	for _, stage := range s.workers {
		for _, w := range stage {
			all = append(all, &w.busy, &w.held, &w.cached, &w.batch, &w.waiting, &w.prefill, &w.computed, &w.prompts, &w.reused)
		}
	}
	return all
}

func (s *Series) workerOf(stage scheduler.Role, id sim.WorkerID) *worker {
	all := &s.workers[stage.Stage()]
	for len(*all) <= int(id) {
		*all = append(*all, new(worker))
	}
	return (*all)[id]
}
