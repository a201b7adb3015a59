package scheduler

import "github.com/replay-llm/replay/sim"

// Pass is the result of one forward pass, or of a run of Count equal passes. In each pass of a run the same requests
// gain one token each, and no request is admitted, finished or preempted. Blocks are stored and evicted in the first pass
// of a run only. Every pass of a run takes Gap, or the passes end at Ends.
//
// Every token of a pass becomes available at the end of the pass. The slices belong to the core and are valid until
// its next Step with the same Pass.
type Pass struct {
	Start sim.Time
	End   sim.Time // end of the last pass of the run
	Count int      // passes in the run, at least 1

	// Gap is the float64 difference between the end and the start of each pass. Pass i of a run ends at exactly Start
	// + (i+1)·Gap. Gap is 0 in a run with Ends.
	Gap sim.Time
	// Ends has the end of each pass if the passes of the run have different durations, all above 0. Ends is empty for
	// all other runs.
	Ends []sim.Time
	// Nanos is the duration of each of the Count passes in ns, if the core has integer durations. Nanos is empty for
	// cores with durations that are not integers. If Nanos is set, its values are used as inter-token latencies.
	Nanos []int64
	// Decoding is the number of requests that gained a token in each pass and also in the pass before the run. Gap is
	// an inter-token latency of each decoding request.
	Decoding int
	// Gaps are the inter-token latencies of requests that gained a token in this pass but not in the previous pass,
	// because they were preempted and resumed. Detail names the resumed requests. Gaps is empty for runs of more than
	// one pass.
	Gaps []sim.Time

	// Tokens is the number of tokens gained in each pass.
	Tokens int
	// Verified is the number of requests with drafts that the pass verified. Drafts is the number of these drafts,
	// and Accepted the number of accepted drafts. Verified, Drafts and Accepted are 0 in runs of several passes.
	Verified, Drafts, Accepted int
	// Admitted lists the requests that were admitted in this pass, in order. The same request may be admitted again
	// in a later pass. Admitted is empty for runs of several passes.
	Admitted []Admission
	// Second lists the requests that gained their second token in the first
	// pass of the run, at FirstEnd.
	Second []sim.RequestID
	// Marks lists first and last tokens at End, in the order in which the engine signals them. Marks is empty for
	// runs of several passes.
	Marks []Mark

	// KV lists changes of cached blocks in the first pass for the router's index, in order. KV is empty unless the core
	// captures residency.
	KV []KVChange
	// Events lists the same changes in the form that the engine would publish. Events is empty unless the core
	// captures events.
	Events []KVEvent
	// EventsLost is the number of events that the engine did not publish because its buffer was full.
	EventsLost int
	// KVAtEnd reports whether KV and Events become visible at End instead of Start.
	KVAtEnd bool

	// ToHost and FromHost are the numbers of tokens sent to and fetched from host memory. ToHost and FromHost are 0
	// for vLLM.
	ToHost, FromHost int

	// Preempted is the number of requests that were preempted in this pass.
	Preempted int
	// Aborted lists the requests that the engine aborted at Start, when it planned this pass or the next. Aborted is
	// empty for runs of several passes.
	Aborted []Abort
	// PrefillTokens is the number of prompt tokens computed in this pass.
	PrefillTokens int

	// Pulls lists the KV caches that are to be read from prefill workers. On a prefill worker that writes KV caches,
	// Pulls lists the KV caches of requests that have left. The next plan passes their blocks to the worker, and Step
	// must be called for it.
	Pulls []Pull

	// Waits reports whether the pass only waits. A pass that only waits ends early if a request arrives: the caller
	// that submits the request calls EndWait. Waits is false for runs of several passes.
	Waits bool

	// Blocked reports that there was no pass, because nothing can run yet. The core needs a call of Core.Release, a
	// completed read of a KV cache, or other requests.
	Blocked bool

	// Detail, if not nil, is filled with the results of the pass for single requests.
	Detail *Detail
}

// Pull is a KV cache that a decode worker reads from a prefill worker.
type Pull struct {
	Request sim.RequestID
	Tokens  int      // tokens of the blocks that are read
	Begins  sim.Time // start of the read, at or after Start
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

// Begins returns the start of pass i of the run, 0 <= i < Count.
func (p *Pass) Begins(i int) sim.Time {
	if len(p.Ends) > 0 && i > 0 {
		return p.Ends[i-1]
	}
	return p.Start + sim.Time(float64(i)*float64(p.Gap))
}

// GapOf returns the duration of pass i of the run.
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

// CutEnds shortens a run with Ends to its first keep passes.
func (p *Pass) CutEnds(keep int) {
	p.Count, p.End, p.Nanos = keep, p.Ends[keep-1], p.Nanos[:min(keep, len(p.Nanos))]
	if p.Ends = p.Ends[:keep]; keep == 1 {
		p.Ends, p.Gap = p.Ends[:0], p.End-p.Start
	}
}

// EndWait ends a pass that only waits at the arrival of a request, if the arrival is before the end of the pass.
func (p *Pass) EndWait(at sim.Time) {
	if p.Waits && at < p.End {
		p.End = max(at, p.Start)
		p.Gap = p.End - p.Start
	}
}

// Reset clears p for a pass that starts at now and keeps the memory of its slices.
func (p *Pass) Reset(now sim.Time) {
	// Fields are set one by one: most are a word, and the slices keep their memory.
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

// AddToken records the nth of outputs tokens of a request. The previous token came at before, in the previous pass
// unless the request was resumed since. AddToken returns the mark of a first or last token, and nil for other tokens.
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

// AddAccepted records count accepted drafts of a request; the first accepted draft is the nth token of the request, n
// > 1. AddToken records the sampled token that follows the drafts: a chunk of several tokens has one inter-token
// latency.
func (p *Pass) AddAccepted(id sim.RequestID, n, count int) {
	p.Tokens += count
	if n == 2 {
		p.Second = append(p.Second, id)
	}
}

// Admission is the admission of a request into the batch of a pass.
type Admission struct {
	Request sim.RequestID
	Again   bool // the request was preempted before, so that Reused may include blocks that the request computed itself
	Reused  int  // prompt tokens found in the prefix cache
	// FromHost is the number of prompt tokens of Reused that came from host
	// memory, fetched for this request.
	FromHost int
}

// Abort is a request that its engine has aborted and removed from the core.
type Abort struct {
	Request sim.RequestID
	Tokens  int      // tokens that the request gained
	Last    sim.Time // the instant of the request's latest token
	Reason  string   // missing resource, with numbers
}

// Mark is the first token of a request, its last token, or both at once.
type Mark struct {
	Request sim.RequestID
	First   bool
	Last    bool
	// Tokens is the number of tokens of the request, including this one.
	Tokens int
	// Handoff is the time to send the KV cache to the decode worker, for the last token on a prefill worker. Handoff
	// is 0 if the transfer takes no time.
	Handoff sim.Time
}

// Detail is the result of a pass for single requests, and the occupancy of the engine. Detail is filled if
// Pass.Detail is set. Work and Lost are empty for a run of several passes.
type Detail struct {
	PrefillEnd sim.Time        // the start of the decode part of the first pass
	Work       []Work          // requests that computed prompt tokens, in order
	Lost       []sim.RequestID // requests that were preempted, in order
	Resumed    []sim.RequestID // the requests of the inter-token latencies Pass.Gaps

	// Running and Waiting are the counts at the end of the pass.
	Running, Waiting int // requests
	Blocks           int // KV blocks of the pool
	Held, Cached     int // KV blocks in use by requests, and cached blocks without a holder
}

// Work is the prefill work of one request in a pass.
type Work struct {
	Request    sim.RequestID
	Prefix     int // prompt tokens already in the KV cache
	Prompt     int // prompt tokens computed
	Recomputed int // generated tokens computed again after a preemption
}

// NewWork returns the work of computing the given number of tokens of r, prompt and output, after the first before
// tokens.
func NewWork(r *sim.Request, before, tokens int) Work {
	w := Work{Request: r.ID, Prefix: min(before, r.InputTokens)}
	w.Prompt = min(before+tokens, r.InputTokens) - w.Prefix
	w.Recomputed = tokens - w.Prompt
	return w
}

// Reset clears d and keeps its memory.
func (d *Detail) Reset() {
	d.PrefillEnd, d.Work, d.Lost, d.Resumed = 0, d.Work[:0], d.Lost[:0], d.Resumed[:0]
	d.Running, d.Waiting, d.Blocks, d.Held, d.Cached = 0, 0, 0, 0, 0
}
