// Package collector remembers facts of a replay (when each request arrived, was
// admitted and gained its tokens) and derives the report from them at the end.
//
// Read collector.go (the facts), fates.go (of requests that lose
// their worker or are turned away), gaps.go (inter-token latencies as weighted
// values), spans.go with spanstats.go (those in whole nanoseconds), window.go (of a part of the
// replay), report.go (what is derived), quantile.go with digits.go (how), json.go and text.go (how it is written),
// file.go (where).
//
// For replays with too many requests to keep, read folding.go (the rest of a request that is over), series.go
// (of what there is one value of per request), spanfold.go and gapfold.go (of what is between tokens), stretches.go (of how
// long requests waited), then sketch.go and spool.go (the two ways to quantiles).
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

// never is the admission time of a request that was not admitted.
const never sim.Time = -1

// Collector holds one Record per request and the inter-token latencies of all
// of them together. It keeps no list of token times.
type Collector struct {
	records []Record // by RequestID, which is the order of arrivals, from first on
	first   int      // request that has a record; those before have been folded
	gaps    gaps
	spans   spans // of passes with lengths in whole ns
	// fromHost is, as records are, the number of reused prompt tokens that were
	// fetched from host memory, the most of any admission; it ends with the last
	// request that has some.
	fromHost []int32
	early    bool // see EndedEarly

	// Of speculative decoding: requests with verified drafts, over all passes, the
	// drafts, and those of them that were accepted.
	verified, drafts, accepted int

	toHost, loaded int // tokens sent to host memory, and fetched from it
	lostEvents     int // KV events that engines had no room for

	clipped, clippedTokens int // answers that engines shortened, and the tokens that they lack
	capped, cappedTokens   int // the same of answers that end at the longest sequence

	apart  bool                    // see CountPreemptedApart
	again  int                     // admissions counted apart
	looked int                     // prompt tokens of these
	found  int                     // of those, tokens that were cached
	hits   map[sim.RequestID]int32 // by request with such admissions: what it found before

	fates fates

	window   Window
	windowed bool // it is less than the whole replay
	made     int  // tokens that came in the window; 0 without one

	fold *folding // nil: the records of all requests are kept
}

// Record has the known facts of one request. Instants are on the logical clock.
// There are as many as requests, so counts of tokens, which fit, have 32 bits.
type Record struct {
	Arrival sim.Time
	Admit   sim.Time // first admission; negative: never admitted
	First   sim.Time // first token, when Tokens >= 1
	Second  sim.Time // second token, when Tokens >= 2
	Last    sim.Time // latest token known, when Tokens >= 1

	Tokens       int32 // tokens known to have been gained
	InputTokens  int32
	OutputTokens int32 // asked for, not gained; of an answer that was shortened, both
	Reused       int32 // prompt tokens found in a cache, the most of any admission

	Worker        sim.WorkerID // of the decode or only stage, or Nowhere
	PrefillWorker sim.WorkerID // of the prefill stage, or Nowhere
	Session       int32
	Turn          int32
}

// Admitted reports whether the request was ever given a place.
func (r *Record) Admitted() bool { return r.Admit >= 0 }

// Counted reports whether the request enters the statistics: it does with an
// admission and a token, even if it has not finished.
func (r *Record) Counted() bool { return r.Admitted() && r.Tokens > 0 }

// TTFT is the time from arrival to the first token of a counted request.
func (r *Record) TTFT() sim.Time { return (r.First - r.Arrival).Max0() }

// E2E is the time from arrival to the latest token of a counted request.
func (r *Record) E2E() sim.Time { return (r.Last - r.Arrival).Max0() }

// TTST is the time from the first to the second token, when there are two.
func (r *Record) TTST() sim.Time { return (r.Second - r.First).Max0() }

// TPOT is the mean time per token after the first, when there are two or more.
func (r *Record) TPOT() sim.Time {
	return (r.Last - r.First).Max0() / sim.Time(r.Tokens-1)
}

// New returns a collector with room for the given number of requests; it grows
// when more arrive.
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

// Place notes the worker of the decode or only stage.
func (c *Collector) Place(id sim.RequestID, w sim.WorkerID) { c.Record(id).Worker = w }

// PlacePrefill notes the worker of the prefill stage.
func (c *Collector) PlacePrefill(id sim.RequestID, w sim.WorkerID) {
	c.Record(id).PrefillWorker = w
}

// CountPreemptedApart counts admissions after a preemption separately: the cached blocks of such a request, mostly its
// own, are no hits.
func (c *Collector) CountPreemptedApart() { c.apart = true }

// countApart notes an admission after a preemption, before it goes into the request's record.
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

// Readmitted returns how many of a request's reused prompt tokens were found after a
// preemption alone and are no hits of the prefix cache, and whether such admissions
// count apart.
func (c *Collector) Readmitted(id sim.RequestID) (tokens int, apart bool) {
	if before, ok := c.hits[id]; ok {
		tokens = int(c.Record(id).Reused - before)
	}
	return tokens, c.apart
}

// Admit notes admissions at an instant. Of several admissions of one request
// the first time and the largest reuse are kept. Passes of a prefill stage are noted by this alone: their tokens do not count.
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

// admitFromHost notes the prompt tokens that an admission fetched from host
// memory.
func (c *Collector) admitFromHost(id sim.RequestID, tokens int32) {
	at := int(id) - c.first
	if missing := at + 1 - len(c.fromHost); missing > 0 {
		c.fromHost = append(c.fromHost, make([]int32, missing)...)
	}
	c.fromHost[at] = max(c.fromHost[at], tokens)
}

// Pass notes a pass, or a run of them, of a decode or only stage.
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

// noteNanos notes the inter-token latencies of a pass with a length in whole ns. So
// are then those of requests that were without a token for some passes.
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

// noteClipped notes that a request has ended with fewer tokens than were asked for. From
// then on it is one that asked for as many.
func (c *Collector) noteClipped(r *Record) {
	if c.window.Holds(r.Arrival) {
		c.clipped++
		c.clippedTokens += int(r.OutputTokens - r.Tokens)
	}
	r.OutputTokens = r.Tokens
}

// Progress notes how far an unfinished request has come: it has gained tokens
// tokens, the latest of them at last. Between a request's second and last token
// no pass reports it; a report of a run that is not over needs it.
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

// EndedEarly notes that the replay was ended before its requests were. The report
// then counts the tokens that were gained, not the tokens that were asked for.
func (c *Collector) EndedEarly() { c.early = true }

// Exclude keeps a request that was cancelled or failed out of the statistics of
// single requests, as if it had not been admitted. Times between its tokens
// stay among those of all requests.
func (c *Collector) Exclude(id sim.RequestID) { c.Record(id).Admit = never }

// Latencies is the time to the first token of a request and its mean time per
// token after that, 0 while there are fewer than two. It reports false while
// the request has no token.
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

// Len is the number of requests that have arrived.
func (c *Collector) Len() int { return c.first + len(c.records) }

// LastArrival is the instant of the latest arrival, 0 without one.
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

// Records are the records in order of arrival. They are the collector's own: not
// to be changed, and valid until the next call of another method. There are none where
// records are folded.
func (c *Collector) Records() []Record {
	c.refuseFolding()
	return c.records
}

// Requests yields the records in order of arrival. They are the collector's
// own: not to be changed, and valid until the next call of another method.
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
