package engine

import (
	"context"
	"github.com/goccy/go-json"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/fault"
)

// prefillGrace is how long a prefill worker may take to end its stream after the
// decode worker has ended its own.
const prefillGrace = time.Second

// PrefillRouter sends every request to a prefill worker and then to a decode
// worker. The consumer sees the decode worker's chunks alone.
//
// Both calls are children of the request: a stop during prefill ends there, and
// decode is never called.
type PrefillRouter struct {
	Prefill, Decode Target
	// Host and Port are where the prefill worker meets the decode worker (package
	// rendezvous); with both, both get the request at once.
	Host string
	Port int
}

// Generate serves a request. Errors of the call to the prefill worker are
// returned, later ones yielded.
func (p *PrefillRouter) Generate(ctx context.Context, rc cancel.Context, rq *Request, headers map[string]string) (iter.Seq2[*Chunk, error], error) {
	first := *rq
	first.SetMaxTokens(1)
	d := &disaggregated{router: p, ctx: ctx, rc: rc, rq: *rq, headers: headers, child: cancel.New(rc.ID())}
	meets := p.Host != "" && p.Port != 0
	if meets {
		first.BootstrapInfo = &BootstrapInfo{Host: p.Host, Port: uint16(p.Port), Room: rand.Uint64() >> 1}
	}
	rc.LinkChild(d.child)
	chunks, err := p.Prefill.Generate(ctx, d.child, &first, headers)
	if err != nil {
		rc.Unlink(d.child)
		return nil, err
	}
	d.prefill = chunks
	if meets {
		return d.runAtOnce(first.BootstrapInfo), nil
	}
	return d.runInTurn, nil
}

// disaggregated is one request on its way through both workers.
type disaggregated struct {
	router  *PrefillRouter
	ctx     context.Context
	rc      cancel.Context
	rq      Request // for the decode worker
	headers map[string]string
	child   cancel.Context // of the call to the prefill worker
	prefill iter.Seq2[*Chunk, error]
}

// runInTurn takes all that the prefill worker says, then calls the decode worker.
func (d *disaggregated) runInTurn(yield func(*Chunk, error) bool) {
	last, err := d.readPrefill()
	d.rc.Unlink(d.child)
	switch {
	case err != nil:
		yield(nil, err)
		return
	case last == nil:
		return // stopped
	case d.rc.IsStopped():
		if !d.rc.IsKilled() {
			yield(cancelledTerminal(last), nil)
		}
		return
	}
	d.forwardDecode(yield)
}

// cancelledTerminal returns the terminal of a request that was stopped before decode.
func cancelledTerminal(last *Chunk) *Chunk {
	if last.FinishReason == FinishCancelled {
		return last
	}
	return &Chunk{FinishReason: FinishCancelled, CompletionUsage: last.CompletionUsage}
}

// readPrefill takes the prefill worker's stream and puts what it left into the
// request. The terminal chunk is nil if the stream ended without one because it
// was stopped.
func (d *disaggregated) readPrefill() (*Chunk, error) {
	var last *Chunk
	for c, err := range d.prefill {
		if err != nil {
			return nil, err
		}
		if c.WorkerTraceLink != nil {
			d.rq.MigrationLink = c.WorkerTraceLink
		}
		if c.FinishReason != "" {
			last = c
			break
		}
	}
	if last == nil {
		if d.rc.IsStopped() {
			return nil, nil
		}
		return nil, fault.New(fault.Disconnected, "prefill: the stream ended without a terminal")
	}
	if message, failed := last.FinishReason.ErrorMessage(); failed {
		return nil, fault.New(fault.Unknown, "prefill: %s", message)
	}
	if len(last.DisaggregatedParams) == 0 && !d.rc.IsStopped() {
		return nil, fault.New(fault.Unknown, "prefill: the terminal has no disaggregated_params")
	}
	d.rq.PrefillResult = &PrefillResult{DisaggregatedParams: last.DisaggregatedParams}
	if last.CompletionUsage != nil {
		d.rq.PrefillResult.PromptTokensDetails = last.CompletionUsage.PromptTokensDetails
	}
	return last, nil
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

// runAtOnce calls the decode worker while the prefill worker computes. If prefill
// fails, decode is killed and the error is the request's.
func (d *disaggregated) runAtOnce(info *BootstrapInfo) iter.Seq2[*Chunk, error] {
	return func(yield func(*Chunk, error) bool) {
		d.rq.BootstrapInfo = info
		params, err := json.Marshal(info)
		if err != nil {
			yield(nil, fault.New(fault.Unknown, "bootstrap: %w", err))
			return
		}
		d.rq.PrefillResult = &PrefillResult{DisaggregatedParams: params}
		ctx, release := context.WithCancel(d.ctx)
		defer release()
		d.ctx = ctx
		failed := make(chan error, 1)
		go func() {
			err := d.drainPrefill()
			failed <- err
			if err != nil {
				release() // decode waits in vain
			}
		}()
		m := meeting{yield: yield, failed: failed, rc: d.rc}
		d.forwardDecode(m.forwardChunk)
		m.yieldFailure()
		d.awaitPrefill(&m)
	}
}

// awaitPrefill waits for prefill, which is over if all went well, and kills it if not.
func (d *disaggregated) awaitPrefill(m *meeting) {
	defer d.rc.Unlink(d.child)
	if m.over {
		return
	}
	if m.done && !m.left {
		limit := time.NewTimer(prefillGrace)
		defer limit.Stop()
		select {
		case <-m.failed:
			return
		case <-limit.C:
		}
	}
	d.child.Kill()
	<-m.failed
}

// drainPrefill takes all that the prefill worker says; only an error matters.
func (d *disaggregated) drainPrefill() error {
	for c, err := range d.prefill {
		if err != nil {
			return err
		}
		if message, failed := c.FinishReason.ErrorMessage(); failed {
			return fault.New(fault.Unknown, "prefill: %s", message)
		}
		if c.FinishReason != "" {
			return nil
		}
	}
	return nil
}

// meeting forwards the decode worker's stream while prefill may still fail, whose
// error is the better one.
type meeting struct {
	yield  func(*Chunk, error) bool
	failed <-chan error // how prefill ended
	rc     cancel.Context

	over bool  // prefill has ended
	why  error // with this
	done bool  // the consumer has seen a terminal
	left bool  // the consumer does not want more
}

// notePrefill notes if prefill has ended.
func (m *meeting) notePrefill() {
	if m.over {
		return
	}
	select {
	case m.why = <-m.failed:
		m.over = true
	default:
	}
}

// forwardChunk forwards an element.
func (m *meeting) forwardChunk(c *Chunk, err error) bool {
	if err != nil {
		if m.notePrefill(); m.why != nil {
			err = m.why
		}
	}
	m.done = isTerminal(c, err)
	m.left = !m.yield(c, err)
	return !m.left && !m.done
}

// yieldFailure yields why the stream ended, if it did not say so itself.
func (m *meeting) yieldFailure() {
	if m.done || m.left || m.rc.IsStopped() {
		return
	}
	if m.notePrefill(); m.why != nil {
		m.done = true
		m.yield(nil, m.why)
	}
}
