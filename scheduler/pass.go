package scheduler

import "github.com/replay-llm/replay/sim"

// Pass is the result of one forward pass, or of a run of Count equal passes: the same requests gain one token each, and
// nothing is admitted, finished, preempted, stored or evicted. Every pass of a run takes Gap, or they end at Ends.
//
// Every token of a pass appears at its end. The slices belong to the core and
// are valid until its next Step with the same Pass.
type Pass struct {
	Start sim.Time
	End   sim.Time // of the last pass of the run
	Count int      // passes in the run, at least 1

	// Gap is the float64 difference between the end and the start of each pass;
	// pass i of a run ends at exactly Start + (i+1)·Gap. It is 0 in a run with Ends.
	Gap sim.Time
	// Ends has the end of each pass if the passes of the run have different durations, all above 0. It is empty for all other
	// runs.
	Ends []sim.Time
	// Nanos is how long each of Count passes takes, in ns, when the core knows that they
	// take whole ones; otherwise there are none. Then it is these that count as inter-token
	// latencies.
	Nanos []int64
	// Decoding is the number of requests that gained a token in each pass and
	// had gained one in the pass before: for them Gap is an inter-token
	// latency.
	Decoding int
	// Gaps are the inter-token latencies of the requests that gained a token in
	// this pass but not in the one before (resumed after a preemption); Detail
	// names them. Runs of more than one pass have none.
	Gaps []sim.Time

	// Tokens is the number of tokens gained in each pass.
	Tokens int
	// Verified is the number of requests with drafts that the pass verified, Drafts the
	// number of these and Accepted how many were right. Runs have none.
	Verified, Drafts, Accepted int
	// Admitted lists the requests that were given a place in this pass, in
	// order; the same request may return in a later pass. Runs have none.
	Admitted []Admission
	// Second lists the requests that gained their second token in the first
	// pass of the run, at FirstEnd.
	Second []sim.RequestID
	// Marks lists first and last tokens at End, in the order in which the
	// engine signals them. Runs have none.
	Marks []Mark

	// KV lists cached and evicted blocks, for the router's index, in order; empty unless the core was built to capture
	// it.
	KV []KVChange
	// Events is the same as the engine would publish it; empty unless captured.
	Events []KVEvent
	// EventsLost is the number of events that the engine had no room for, and did not publish.
	EventsLost int
	// KVAtEnd is whether KV and Events become visible at End instead of Start.
	KVAtEnd bool

	// ToHost and FromHost are the tokens that were sent to host memory, and fetched from it; not of vLLM.
	ToHost, FromHost int

	// Preempted is the number of requests that lost their place in this pass.
	Preempted int
	// Aborted lists the requests that the engine gave up when it planned this pass, or the one after it, at
	// Start. Runs have none.
	Aborted []Abort
	// PrefillTokens is the number of prompt tokens computed in this pass.
	PrefillTokens int

	// Pulls lists the KV caches that are to be read from prefill workers. On a prefill worker that writes KV caches, it lists those
	// of requests that have left: the next plan hands their blocks to the worker, and Step is called for it.
	Pulls []Pull

	// Waits is whether the pass only waits, and ends early if a request arrives: EndWait is for the caller that submits
	// one. Runs have none.
	Waits bool

	// Blocked is whether there was no pass: nothing can run before KV blocks are released by Core.Release, a KV
	// cache has been read, or other requests are on the core.
	Blocked bool

	// Detail, when not nil, is filled with what the pass did to single
	// requests.
	Detail *Detail
}

// Pull is a KV cache that a decode worker reads from a prefill worker.
type Pull struct {
	Request sim.RequestID
	Tokens  int      // of the blocks that are read
	Begins  sim.Time // the instant, at or after Start
}

// FirstEnd returns the end of the first pass of the run.
func (p *Pass) FirstEnd() sim.Time {
	switch {
	case p.Count == 1:
		return p.End
	case len(p.Ends) > 0:
		return p.Ends[0]
	}
	return p.Start + p.Gap
}

// Begins returns when pass i of the run begins, 0 <= i < Count.
func (p *Pass) Begins(i int) sim.Time {
	if len(p.Ends) > 0 && i > 0 {
		return p.Ends[i-1]
	}
	return p.Start + sim.Time(float64(i)*float64(p.Gap))
}

// GapOf returns the Gap of pass i of the run alone.
func (p *Pass) GapOf(i int) sim.Time {
	if len(p.Ends) > 0 {
		return p.Ends[i] - p.Begins(i)
	}
	return p.Gap
}

// VisibleAt returns the instant at which KV and Events become visible.
func (p *Pass) VisibleAt() sim.Time {
	if p.KVAtEnd {
		return p.End
	}
	return p.Start
}

// CutEnds ends a run with Ends after its first keep passes.
func (p *Pass) CutEnds(keep int) {
	p.Count, p.End, p.Nanos = keep, p.Ends[keep-1], p.Nanos[:min(keep, len(p.Nanos))]
	if p.Ends = p.Ends[:keep]; keep == 1 {
		p.Ends, p.Gap = p.Ends[:0], p.End-p.Start
	}
}

// EndWait ends a pass that waits with the request that comes at an instant, if that is before its end.
func (p *Pass) EndWait(at sim.Time) {
	if p.Waits && at < p.End {
		p.End = max(at, p.Start)
		p.Gap = p.End - p.Start
	}
}

// Reset empties p for a pass that starts at now, keeping its memory.
func (p *Pass) Reset(now sim.Time) {
	// Field by field: most are a word, and the slices keep their memory.
	p.Start, p.End, p.Count = now, now, 1
	p.Gap, p.Decoding, p.Tokens = 0, 0, 0
	p.Ends, p.Nanos = p.Ends[:0], p.Nanos[:0]
	p.Verified, p.Drafts, p.Accepted = 0, 0, 0
	p.Gaps, p.Admitted, p.Second, p.Aborted = p.Gaps[:0], p.Admitted[:0], p.Second[:0], p.Aborted[:0]
	p.Marks, p.KV, p.Events = p.Marks[:0], p.KV[:0], p.Events[:0]
	p.KVAtEnd, p.EventsLost, p.Preempted, p.PrefillTokens = false, 0, 0, 0
	p.ToHost, p.FromHost, p.Waits, p.Blocked, p.Pulls = 0, 0, false, false, p.Pulls[:0]
	if p.Detail != nil {
		p.Detail.Reset()
	}
}

// AddToken enters a request's nth token of outputs. The one before came at an
// instant, in the pass before unless it has been resumed since. It returns the
// mark of a first or last token, and nil for other marks.
func (p *Pass) AddToken(id sim.RequestID, n, outputs int, before sim.Time, resumed bool) *Mark {
	p.Tokens++
	switch {
	case n == 1:
	case !resumed:
		p.Decoding++
	default:
		p.Gaps = append(p.Gaps, (p.End - before).Max0())
		if p.Detail != nil {
			p.Detail.Resumed = append(p.Detail.Resumed, id)
		}
	}
	if n == 2 {
		p.Second = append(p.Second, id)
	}
	if n > 1 && n < outputs {
		return nil
	}
	p.Marks = append(p.Marks, Mark{Request: id, First: n == 1, Last: n == outputs, Tokens: n})
	return &p.Marks[len(p.Marks)-1]
}

// AddAccepted enters accepted drafts of a request, the first of them its nth token,
// n > 1. The token after them, which comes with them, is entered by AddToken: a chunk
// of several tokens has one inter-token latency.
func (p *Pass) AddAccepted(id sim.RequestID, n, count int) {
	p.Tokens += count
	if n == 2 {
		p.Second = append(p.Second, id)
	}
}

// Admission is a request's entry into a pass's batch.
type Admission struct {
	Request sim.RequestID
	Again   bool // it was preempted before: what it finds may be its own
	Reused  int  // prompt tokens found in the prefix cache
	// FromHost is the number of prompt tokens of Reused that came from host
	// memory, fetched for this request.
	FromHost int
}

// Abort is a request that its engine gives up, which is not on the core any more.
type Abort struct {
	Request sim.RequestID
	Tokens  int      // that it has gained
	Last    sim.Time // when it gained the latest of them
	Reason  string   // what it lacks, with numbers
}

// Mark is a token of note: a request's first, its last, or both at once.
type Mark struct {
	Request sim.RequestID
	First   bool
	Last    bool
	// Tokens is the number of tokens the request has gained with this one.
	Tokens int
	// Handoff is the time the KV cache takes to reach the decode worker, for
	// the last token on a prefill worker; 0 when it takes none.
	Handoff sim.Time
}

// Detail is what a pass did to single requests, and how full the engine was. It
// is filled if a Pass has one; a run of passes has no Work and no
// Lost.
type Detail struct {
	PrefillEnd sim.Time        // when the decode part of the first pass begins
	Work       []Work          // requests that computed prompt tokens, in order
	Lost       []sim.RequestID // requests that lost their place, in order
	Resumed    []sim.RequestID // the requests of the inter-token latencies Pass.Gaps

	// After the pass.
	Running, Waiting int // requests
	Blocks           int // KV blocks of the pool
	Held, Cached     int // KV blocks held by requests, and cached without a holder
}

// Work is one request's part in a pass's prefill.
type Work struct {
	Request    sim.RequestID
	Prefix     int // prompt tokens that were there before
	Prompt     int // prompt tokens computed
	Recomputed int // generated tokens computed once more, after a preemption
}

// NewWork returns the work of computing n tokens of r, prompt and output, after the first
// before.
func NewWork(r *sim.Request, before, tokens int) Work {
	w := Work{Request: r.ID, Prefix: min(before, r.InputTokens)}
	w.Prompt = min(before+tokens, r.InputTokens) - w.Prefix
	w.Recomputed = tokens - w.Prompt
	return w
}

// Reset empties d, keeping its memory.
func (d *Detail) Reset() {
	d.PrefillEnd, d.Work, d.Lost, d.Resumed = 0, d.Work[:0], d.Lost[:0], d.Resumed[:0]
	d.Running, d.Waiting, d.Blocks, d.Held, d.Cached = 0, 0, 0, 0, 0
}
