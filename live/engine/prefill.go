package engine

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/fault"
)

// prefillGrace is how long the stream of a prefill worker may continue after the end of the decode worker's stream.
const prefillGrace = time.Second

// PrefillRouter sends every request to a prefill worker and then to a decode worker. The consumer receives only the
// decode worker's chunks.
//
// The calls of prefill and decode are children of the request: a stop during prefill ends the request, and decode is
// not called.
type PrefillRouter struct {
	Prefill, Decode Target
	// Host and Port are the address at which the prefill worker waits for the decode worker (package rendezvous). If
	// Host and Port are set, the prefill and the decode worker get the request at once.
	Host string
	Port int
}

// Generate serves a request. Errors of the call to the prefill worker are returned, later errors are yielded.
func (p *PrefillRouter) Generate(ctx context.Context, rc cancel.Context, rq *Request, headers map[string]string) (iter.Seq2[*Chunk, error], error) {
	first := *rq
	first.SetMaxTokens(1)
	if r := rq.Routing; r != nil {
		own := *r
		own.DPRank, first.Routing = r.PrefillDPRank, &own
	}
	d := &disaggregated{router: p, ctx: ctx, rc: rc, rq: *rq, headers: headers, child: cancel.New(rc.ID())}
	run := d.runInTurn
	if p.Host != "" && p.Port != 0 {
		first.BootstrapInfo = &BootstrapInfo{Host: p.Host, Port: uint16(p.Port), Room: rand.Uint64() >> 1}
		d.rq.BootstrapInfo = first.BootstrapInfo
		run = d.runAtOnce
	}
	rc.LinkChild(d.child)
	var err error
	if d.prefill, err = p.Prefill.Generate(ctx, d.child, &first, headers); err != nil {
		rc.Unlink(d.child)
		return nil, err
	}
	return run, nil
}

// disaggregated is the state of one request on both workers.
type disaggregated struct {
	router  *PrefillRouter
	ctx     context.Context
	rc      cancel.Context
	rq      Request // request for the decode worker
	headers map[string]string
	child   cancel.Context // context of the call to the prefill worker
	prefill iter.Seq2[*Chunk, error]

	// Used if both workers get the request at once. If prefill fails while decode streams, its error is yielded,
	// because it is more precise.
	yield  func(*Chunk, error) bool
	failed chan error // receives the result of prefill
	over   bool       // prefill has ended
	why    error      // the error of prefill
	done   bool       // the consumer has received a terminal
	left   bool       // the consumer has stopped reading
}

// runInTurn reads the prefill worker's stream to its end, then calls the decode worker.
func (d *disaggregated) runInTurn(yield func(*Chunk, error) bool) {
	last, err := d.readPrefill(&d.rq)
	d.rc.Unlink(d.child)
	stopped := d.rc.IsStopped()
	switch {
	case err != nil:
	case last == nil && !stopped:
		err = fault.New(fault.Disconnected, "prefill: the stream ended without a terminal")
	case last != nil && len(last.DisaggregatedParams) == 0 && !stopped:
		err = fault.New(fault.Unknown, "prefill: the terminal has no disaggregated_params")
	case last == nil, d.rc.IsKilled():
		return
	case stopped:
		if last.FinishReason != FinishCancelled {
			last = &Chunk{FinishReason: FinishCancelled, CompletionUsage: last.CompletionUsage}
		}
		yield(last, nil)
		return
	}
	if err != nil {
		yield(nil, err)
		return
	}
	d.rq.PrefillResult = &PrefillResult{DisaggregatedParams: last.DisaggregatedParams}
	if last.CompletionUsage != nil {
		d.rq.PrefillResult.PromptTokensDetails = last.CompletionUsage.PromptTokensDetails
	}
	d.forwardDecode(yield)
}

// readPrefill reads the prefill worker's stream, and links rq to the span of the worker. readPrefill returns the
// terminal chunk, or nil if there was none.
func (d *disaggregated) readPrefill(rq *Request) (*Chunk, error) {
	for c, err := range d.prefill {
		if err != nil {
			return nil, err
		}
		if c.WorkerTraceLink != nil {
			rq.MigrationLink = c.WorkerTraceLink
		}
		if message, failed := c.FinishReason.ErrorMessage(); failed {
			return nil, fault.New(fault.Unknown, "prefill: %s", message)
		}
		if c.FinishReason != "" {
			return c, nil
		}
	}
	return nil, nil
}

// forwardDecode forwards the decode worker's stream.
func (d *disaggregated) forwardDecode(yield func(*Chunk, error) bool) {
	child := cancel.New(d.rc.ID())
	d.rc.LinkChild(child)
	defer d.rc.Unlink(child)
	chunks, err := d.router.Decode.Generate(d.ctx, child, &d.rq, d.headers)
	if err != nil {
		yield(nil, err)
		return
	}
	chunks(yield)
}

// runAtOnce calls the decode worker while the prefill worker computes. If prefill fails, decode is killed, and the
// request fails with the error of prefill.
func (d *disaggregated) runAtOnce(yield func(*Chunk, error) bool) {
	params, err := json.Marshal(d.rq.BootstrapInfo)
	if err != nil {
		yield(nil, fault.New(fault.Unknown, "bootstrap: %w", err))
		return
	}
	d.rq.PrefillResult = &PrefillResult{DisaggregatedParams: params}
	ctx, release := context.WithCancel(d.ctx)
	defer release()
	d.ctx, d.yield, d.failed = ctx, yield, make(chan error, 1)
	go func() {
		_, err := d.readPrefill(new(Request))
		d.failed <- err
		if err != nil {
			release() // decode waits for a prefill that failed
		}
	}()
	d.forwardDecode(d.forwardChunk)
	if !d.done && !d.left && !d.rc.IsStopped() { // the stream ended without a reason
		if d.notePrefill(); d.why != nil {
			d.done = true
			d.yield(nil, d.why)
		}
	}
	d.awaitPrefill()
}

// forwardChunk forwards an element of decode.
func (d *disaggregated) forwardChunk(c *Chunk, err error) bool {
	if err != nil {
		if d.notePrefill(); d.why != nil {
			err = d.why
		}
	}
	d.done = isTerminal(c, err)
	d.left = !d.yield(c, err)
	return !d.left && !d.done
}

// notePrefill checks whether prefill has ended, without waiting.
func (d *disaggregated) notePrefill() {
	if d.over {
		return
	}
	select {
	case d.why = <-d.failed:
		d.over = true
	default:
	}
}

// awaitPrefill waits for the end of prefill after a complete answer, at most prefillGrace. After this time
// awaitPrefill kills prefill.
func (d *disaggregated) awaitPrefill() {
	defer d.rc.Unlink(d.child)
	if d.over {
		return
	}
	if d.done && !d.left {
		limit := time.NewTimer(prefillGrace)
		defer limit.Stop()
		select {
		case <-d.failed:
			return
		case <-limit.C:
		}
	}
	d.child.Kill()
	<-d.failed
}
