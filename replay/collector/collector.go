// Package collector records facts of a replay (when each request arrived, was admitted and gained its tokens) and
// derives the report from them at the end.
//
// Read collector.go (the facts), fates.go (facts of requests that lose their worker or are rejected), gaps.go
// (inter-token latencies as weighted values), spans.go with spanstats.go (latencies in whole nanoseconds), window.go
// (the report of a part of the replay), report.go (the report), quantile.go with digits.go (quantiles), json.go and
// text.go (output formats), file.go (output files).
//
// For replays with too many requests to keep, read folding.go (sums of ended requests), series.go (metrics with one
// value per request), spanfold.go and gapfold.go (inter-token latencies), stretches.go (waiting times), then
// sketch.go and spool.go (approximate and exact quantiles).
package collector

import (
	"fmt"
	"iter"
	"math"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Nowhere is the worker of a request that was never placed.
const Nowhere sim.WorkerID = -1

// never is the Admit time of a request that was not admitted.
const never sim.Time = -1

// Collector has one Record per request, and the inter-token latencies of all requests together. Collector keeps no
// list of token times.
type Collector struct {
	records []Record // by RequestID from first on, in order of arrival
	first   int      // id of the first request with a record; earlier requests are folded
	gaps    gaps
	spans   spans // latencies of passes with durations in whole ns
	// fromHost is, by index in records, the number of reused prompt tokens that were loaded from host memory. The
	// number is the maximum over the admissions of a request. fromHost may be shorter than records.
	fromHost []int32
	early    bool // see EndedEarly

	// With speculative decoding: requests with verified drafts, summed over all passes, draft tokens, and accepted
	// draft tokens.
	verified, drafts, accepted int

	toHost, loaded int // tokens sent to host memory, and fetched from it
	lostEvents     int // KV events that engines dropped

	clipped, clippedTokens int // answers that engines shortened, and the tokens cut off
	capped, cappedTokens   int // answers limited by the maximum sequence length, and the tokens cut off

	apart  bool                    // see CountPreemptedApart
	again  int                     // admissions after a preemption
	looked int                     // prompt tokens of admissions after a preemption
	found  int                     // cached prompt tokens of admissions after a preemption
	hits   map[sim.RequestID]int32 // Record.Reused before the first admission after a preemption, by request

	fates fates

	window   Window
	windowed bool // the report covers only a window of the replay
	made     int  // tokens gained in the window; 0 without a window

	fold *folding // nil: the records of all requests are kept
}

// Record is the known facts of one request. Instants are on the logical clock. Token counts have 32 bits to save
// memory, as there is one Record per request.
type Record struct {
	Arrival sim.Time
	Admit   sim.Time // first admission; negative: never admitted
	First   sim.Time // first token, when Tokens >= 1
	Second  sim.Time // second token, when Tokens >= 2
	Last    sim.Time // latest known token, when Tokens >= 1

	Tokens       int32 // number of known tokens
	InputTokens  int32
	OutputTokens int32 // requested tokens; the actual number for a shortened answer
	Reused       int32 // prompt tokens found in a cache, the maximum over the admissions of the request

	Worker        sim.WorkerID // of the decode stage or the only stage, or Nowhere
	PrefillWorker sim.WorkerID // of the prefill stage, or Nowhere
	Session       int32
	Turn          int32
}

// Admitted reports whether the request was ever admitted by an engine.
func (r *Record) Admitted() bool { return r.Admit >= 0 }

// Counted reports whether the request is part of the statistics: it has an admission and a token, even if it has not
// finished.
func (r *Record) Counted() bool { return r.Admitted() && r.Tokens > 0 }

// TTFT returns the time from arrival to the first token of a counted request.
func (r *Record) TTFT() sim.Time { return (r.First - r.Arrival).Max0() }

// E2E returns the time from arrival to the latest token of a counted request.
func (r *Record) E2E() sim.Time { return (r.Last - r.Arrival).Max0() }

// TTST returns the time from the first to the second token, if the request has two tokens.
func (r *Record) TTST() sim.Time { return (r.Second - r.First).Max0() }

// TPOT returns the mean time per token after the first, if the request has at least two tokens.
func (r *Record) TPOT() sim.Time {
	return (r.Last - r.First).Max0() / sim.Time(r.Tokens-1)
}

// New returns a collector with capacity for the given number of requests. The collector grows if more requests
// arrive.
func New(requests int) *Collector {
	c := &Collector{records: make([]Record, 0, max(requests, 0))}
	c.gaps.grow(max(64, min(gapsPerRequest*requests, compactAt)))
	return c
}

// Arrive opens the record of r. Requests arrive in the order of their ids.
func (c *Collector) Arrive(r *sim.Request, at sim.Time) {
	if int(r.ID) != c.Len() {
		panic(fmt.Sprintf("collector: request %d arrives, must be %d", r.ID, c.Len()))
	}
	if c.fold != nil {
		c.foldEnded()
		c.fold.remarks = append(c.fold.remarks, remark{line: r.Line, class: r.Class})
	}
	if r.Cut > 0 && c.window.Holds(at) {
		c.capped++
		c.cappedTokens += r.Cut
	}
	c.records = append(c.records, Record{
		Arrival: at, Admit: never,
		InputTokens: int32(r.InputTokens), OutputTokens: int32(r.OutputTokens),
		Worker: Nowhere, PrefillWorker: Nowhere,
		Session: r.Session, Turn: r.Turn,
	})
}

// Place records the worker of the decode stage or the only stage.
func (c *Collector) Place(id sim.RequestID, w sim.WorkerID) { c.Record(id).Worker = w }

// PlacePrefill records the worker of the prefill stage.
func (c *Collector) PlacePrefill(id sim.RequestID, w sim.WorkerID) {
	c.Record(id).PrefillWorker = w
}

// CountPreemptedApart counts admissions after a preemption separately. The cached blocks of such a request are mostly
// blocks that the request computed itself, so they are not hits.
func (c *Collector) CountPreemptedApart() { c.apart = true }

// countApart records an admission after a preemption, before Admit adds it to the request's record.
func (c *Collector) countApart(a scheduler.Admission) {
	r := c.Record(a.Request)
	if c.window.Holds(r.Arrival) {
		c.again++
		c.looked += int(r.InputTokens)
		c.found += a.Reused
	}
	if c.hits == nil {
		c.hits = make(map[sim.RequestID]int32)
	}
	if _, ok := c.hits[a.Request]; !ok {
		c.hits[a.Request] = r.Reused
	}
}

// Readmitted returns the reused prompt tokens of a request that were found only after a preemption and are not prefix
// cache hits. apart reports whether such admissions are counted separately.
func (c *Collector) Readmitted(id sim.RequestID) (tokens int, apart bool) {
	if before, ok := c.hits[id]; ok {
		tokens = int(c.Record(id).Reused - before)
	}
	return tokens, c.apart
}

// Admit records admissions at an instant. For several admissions of a request, Admit keeps the first time and the
// largest reuse. Passes of a prefill stage are recorded only by Admit: their tokens do not count.
func (c *Collector) Admit(at sim.Time, admitted []scheduler.Admission) {
	for _, a := range admitted {
		r := c.Record(a.Request)
		if !r.Admitted() {
			r.Admit = at
		}
		if a.Again && c.apart {
			c.countApart(a)
		}
		if c.fates.moved > 0 {
			a.Reused = c.admitAgain(a)
		}
		r.Reused = max(r.Reused, int32(min(a.Reused, math.MaxInt32)))
		if a.FromHost > 0 {
			c.admitFromHost(a.Request, int32(a.FromHost))
		}
	}
}

// admitFromHost records the prompt tokens that an admission loaded from host memory.
func (c *Collector) admitFromHost(id sim.RequestID, tokens int32) {
	at := int(id) - c.first
	if missing := at + 1 - len(c.fromHost); missing > 0 {
		c.fromHost = append(c.fromHost, make([]int32, missing)...)
	}
	c.fromHost[at] = max(c.fromHost[at], tokens)
}

// Pass records a pass, or a run of passes, of the decode stage or the only stage.
func (c *Collector) Pass(p *scheduler.Pass) {
	c.Admit(p.Start, p.Admitted)
	if p.Verified > 0 && c.window.Holds(p.End) {
		c.verified += p.Verified
		c.drafts += p.Drafts
		c.accepted += p.Accepted
	}
	c.toHost += p.ToHost
	c.loaded += p.FromHost
	c.lostEvents += p.EventsLost
	if len(p.Second) > 0 {
		c.noteSecond(p.FirstEnd(), p.Second)
	}
	for i := range p.Marks {
		if carried := c.fates.carriedBy(p.Marks[i].Request); carried > 0 {
			c.noteCarried(p, &p.Marks[i], carried)
		} else {
			c.noteMark(p.End, &p.Marks[i])
		}
	}
	switch {
	case c.windowed:
		c.noteWithin(p)
		return
	case len(p.Nanos) > 0:
		c.noteNanos(p)
		return
	}
	if len(p.Ends) == 0 {
		c.gaps.add(p.Gap, int64(p.Count)*int64(p.Decoding))
	}
	for i := range p.Ends {
		c.gaps.add(p.GapOf(i), int64(p.Decoding))
	}
	for _, gap := range p.Gaps {
		c.gaps.add(gap, 1)
	}
}

// noteNanos records the inter-token latencies of a pass with a duration in whole ns. Requests without a token in some
// passes have latencies in p.Gaps.
func (c *Collector) noteNanos(p *scheduler.Pass) {
	c.spans.add(p.Nanos, int64(p.Decoding))
	for _, gap := range p.Gaps {
		c.noteGap(p, gap)
	}
}

func (c *Collector) noteSecond(at sim.Time, ids []sim.RequestID) {
	for _, id := range ids {
		r := c.Record(id)
		if carried := c.fates.carriedBy(id); carried > 0 {
			r.Last, r.Tokens = at, carried+2
			continue
		}
		if invariant.Enabled && r.Tokens != 1 {
			panic(fmt.Sprintf("collector: second token of request %d, which has %d", id, r.Tokens))
		}
		r.Second, r.Last, r.Tokens = at, at, 2
	}
}

func (c *Collector) noteMark(at sim.Time, m *scheduler.Mark) {
	r := c.Record(m.Request)
	if m.First {
		if invariant.Enabled && r.Tokens != 0 {
			panic(fmt.Sprintf("collector: first token of request %d, which has %d", m.Request, r.Tokens))
		}
		r.First, r.Last, r.Tokens = at, at, 1
	}
	if m.Last {
		if invariant.Enabled && (m.Tokens < int(r.Tokens) || at < r.Last) {
			panic(fmt.Sprintf("collector: last token %d of request %d at %v ms, which has %d at %v ms",
				m.Tokens, m.Request, at, r.Tokens, r.Last))
		}
		r.Last, r.Tokens = at, int32(m.Tokens)
		if r.Tokens < r.OutputTokens {
			c.noteClipped(r)
		}
		c.endRecord(m.Request)
	}
}

// noteClipped records that a request has ended with fewer tokens than requested. OutputTokens of the request becomes
// the actual number.
func (c *Collector) noteClipped(r *Record) {
	if c.window.Holds(r.Arrival) {
		c.clipped++
		c.clippedTokens += int(r.OutputTokens - r.Tokens)
	}
	r.OutputTokens = r.Tokens
}

// Progress records that an unfinished request has the given number of tokens, the latest of them at last. Passes
// report only the first, second and last token of a request, so a report of an unfinished run requires Progress.
func (c *Collector) Progress(id sim.RequestID, tokens int, last sim.Time) {
	r := c.Record(id)
	tokens += int(c.fates.carriedBy(id))
	if invariant.Enabled && (tokens < int(r.Tokens) || tokens > 0 && r.Tokens == 0) {
		panic(fmt.Sprintf("collector: progress of request %d to %d tokens, which has %d", id, tokens, r.Tokens))
	}
	if tokens > 0 {
		r.Tokens, r.Last = int32(tokens), last
	}
}

// EndedEarly records that the replay ended before its requests. The report then counts gained tokens instead of
// requested tokens.
func (c *Collector) EndedEarly() { c.early = true }

// Exclude removes a cancelled or failed request from the per-request statistics, as if it had not been admitted. The
// inter-token latencies of the request remain in the statistics.
func (c *Collector) Exclude(id sim.RequestID) { c.Record(id).Admit = never }

// Latencies returns the time to the first token of a request and its mean time per later token. tpot is 0 with fewer
// than two tokens. Latencies reports false if the request has no token.
func (c *Collector) Latencies(id sim.RequestID) (ttft, tpot sim.Time, ok bool) {
	if int(id) >= c.Len() {
		return 0, 0, false
	}
	r := c.Record(id)
	if r.Tokens == 0 {
		return 0, 0, false
	}
	if r.Tokens >= 2 {
		tpot = r.TPOT()
	}
	return r.TTFT(), tpot, true
}

// Len returns the number of requests that have arrived.
func (c *Collector) Len() int { return c.first + len(c.records) }

// LastArrival returns the instant of the latest arrival, 0 if no request has arrived.
func (c *Collector) LastArrival() sim.Time {
	if len(c.records) > 0 {
		return c.records[len(c.records)-1].Arrival
	}
	if c.fold != nil {
		return c.fold.last
	}
	return 0
}

// Record returns the record of a request that has not been folded.
func (c *Collector) Record(id sim.RequestID) *Record { return &c.records[int(id)-c.first] }

// Records returns the records in order of arrival. The caller must not change the records. Records are valid until
// the next call of another method. Records panics if the records are folded.
func (c *Collector) Records() []Record {
	c.refuseFolding()
	return c.records
}

// Requests yields the records in order of arrival. The caller must not change the records. Records are valid until
// the next call of another method. Requests panics if the records are folded.
func (c *Collector) Requests() iter.Seq2[sim.RequestID, *Record] {
	c.refuseFolding()
	return func(yield func(sim.RequestID, *Record) bool) {
		for i := range c.records {
			if !yield(sim.RequestID(i), &c.records[i]) {
				return
			}
		}
	}
}
