package engine

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/telemetry"
)

// abortLimit is how long an Abort may keep the end of its request waiting. It
// must not block at all.
const abortLimit = time.Second

// generation is one request in an engine, from Generate to its end.
type generation struct {
	cancel.Context // the request's
	adapter        *Adapter
	metadata       map[string]string
	chunks         iter.Seq2[*Chunk, error]
	ctx            context.Context
	release        context.CancelFunc // of ctx
	span           *telemetry.Generation

	pulled atomic.Bool   // somebody ranges over the sequence, or nobody will
	once   sync.Once     // of first
	first  chan struct{} // closed with the first token
	done   chan struct{} // closed with the end of the sequence
	quiet  chan struct{} // closed when nobody calls Abort any more

	yielding bool // the consumer is at work, and a panic is its own
	stopped  bool // the request was when its sequence ended; set before done is closed
}

// NotifyFirstToken lets an abort through that waits for it.
func (g *generation) NotifyFirstToken() { g.once.Do(func() { close(g.first) }) }

// Metadata returns the request's headers.
func (g *generation) Metadata() map[string]string { return g.metadata }

// watchSignals aborts the request in the engine when it is stopped, and ends its ctx
// when it is killed. It ends with the sequence, or when nobody is going to pull that.
func (g *generation) watchSignals() {
	defer close(g.quiet)
	gone := g.ctx.Done()
	aborting, killed := g.Stopped(), g.Killed()
	var first <-chan struct{}
	for {
		select {
		case <-g.done:
			g.abortLate(aborting == nil && first == nil)
			return
		case <-aborting:
			aborting, first = nil, g.abortAllowed()
		case <-first:
			first = nil
			g.callAbort()
		case <-killed:
			killed = nil
			g.release()
		case <-gone:
			gone = nil
			g.releaseUnpulled()
		}
	}
}

// abortAllowed returns a channel that is closed when Abort may be called: at once, or
// on decode workers with the first token.
func (g *generation) abortAllowed() <-chan struct{} {
	if g.adapter.mode == Decode {
		return g.first
	}
	now := make(chan struct{})
	close(now)
	return now
}

// abortLate calls Abort for a stop that came before the end of the sequence, if that
// was not done before: the end was quicker than watchSignals.
func (g *generation) abortLate(told bool) {
	if told || !g.stopped {
		return
	}
	select {
	case <-g.abortAllowed():
		g.callAbort()
	default:
	}
}

func (g *generation) callAbort() {
	defer func() {
		if p := recover(); p != nil {
			_ = g.adapter.recordPanic(g, p)
		}
	}()
	g.adapter.engine.Abort(g.Context)
}

// releaseUnpulled ends a request whose consumer is gone before it pulled anything. The
// sequence is pulled once, in vain, so that it can release what it holds.
func (g *generation) releaseUnpulled() {
	if !g.pulled.CompareAndSwap(false, true) {
		return // who pulls it ends it
	}
	go func() {
		defer g.endSequence()
		defer g.span.Dropped()
		g.pullChunks(func(*Chunk, error) bool { return false })
	}()
}

// forwardChunks is the sequence that the consumer ranges over.
func (g *generation) forwardChunks(yield func(*Chunk, error) bool) {
	if !g.pulled.CompareAndSwap(false, true) {
		return
	}
	f := forwarder{generation: g, yield: yield}
	defer g.endSequence()
	defer f.endSpan()
	if err := g.pullChunks(f.forwardChunk); err != nil && !f.isOver() {
		f.yieldError(err)
	}
	if !f.isOver() && !g.IsStopped() && g.ctx.Err() == nil {
		f.yieldError(fault.New(fault.BackendStreamIncomplete, "the engine's stream ended without a terminal"))
	}
}

// pullChunks ranges over the engine's sequence until take says that it is enough. The
// engine's panic is returned as an error; after the end of the stream it is a
// broken contract, which is logged, or panics on where engines are validated.
func (g *generation) pullChunks(take func(*Chunk, error) bool) (failed error) {
	ended := false
	defer func() {
		p := recover()
		switch {
		case p == nil:
		case IsViolation(p), g.yielding:
			panic(p)
		case ended:
			g.adapter.log.ErrorContext(g.ctx, "engine contract: it went on after the end of its stream", "request", g.ID(), "panic", p)
		default:
			failed = g.adapter.recordPanic(g, p)
		}
	}()
	chunks := g.chunks
	if g.adapter.validate {
		chunks = panicAfterTerminal(chunks)
	}
	for c, err := range chunks {
		if !take(c, err) {
			ended = true
			g.release() // what still waits in the engine need not
			break
		}
	}
	return nil
}

// endSequence releases everything, once the sequence is over.
func (g *generation) endSequence() {
	g.stopped = g.IsStopped()
	g.release()
	close(g.done)
	limit := time.NewTimer(abortLimit)
	defer limit.Stop()
	select {
	case <-g.quiet:
	case <-limit.C:
		g.adapter.log.Error("engine contract: Abort blocks", "request", g.ID(), "for", abortLimit)
	}
}

// forwarder hands elements to the consumer and notes how it ended.
type forwarder struct {
	*generation
	yield func(*Chunk, error) bool

	stamped bool
	last    *Chunk // the terminal chunk
	failed  *Error // the terminal error
	dropped bool   // the consumer walked away
	killed  bool   // nobody wants to hear more
}

func (f *forwarder) isOver() bool {
	return f.last != nil || f.failed != nil || f.dropped || f.killed
}

// forwardChunk forwards one element of the engine. It reports whether there may be more.
func (f *forwarder) forwardChunk(c *Chunk, err error) bool {
	switch {
	case f.IsKilled():
		f.killed = true
		return false
	case err != nil:
		f.yieldError(err)
		return false
	case c == nil:
		f.yieldError(fault.New(fault.BackendUnknown, "the engine yielded neither a chunk nor an error"))
		return false
	}
	if len(c.TokenIDs) > 0 {
		f.NotifyFirstToken()
	}
	f.span.Tokens(len(c.TokenIDs))
	c = f.addTraceLink(c)
	if c.FinishReason == "" {
		f.dropped = !f.yieldElement(c, nil)
		return !f.dropped
	}
	f.last = c
	f.yieldElement(c, nil)
	return false
}

func (f *forwarder) yieldError(err error) {
	f.failed = fault.FromEngine(err)
	f.yieldElement(nil, f.failed)
}

// yieldElement gives an element to the consumer.
func (f *forwarder) yieldElement(c *Chunk, err error) bool {
	f.yielding = true
	more := f.yield(c, err)
	f.yielding = false
	return more
}

// addTraceLink adds the ids of the span to the first chunk with tokens, on prefill
// workers to the terminal if there was none.
func (f *forwarder) addTraceLink(c *Chunk) *Chunk {
	if f.stamped || !f.span.Recording() {
		return c
	}
	if len(c.TokenIDs) == 0 && (f.adapter.mode != Prefill || c.FinishReason == "") {
		return c
	}
	f.stamped = true
	trace, span := f.span.Link()
	copied := *c
	copied.WorkerTraceLink = &TraceLink{TraceID: trace, SpanID: span}
	return &copied
}

// endSpan ends the span.
func (f *forwarder) endSpan() {
	switch {
	case f.failed != nil:
		f.span.Failed(string(f.failed.Type), f.failed, f.IsStopped())
	case f.last != nil:
		_, failed := f.last.FinishReason.ErrorMessage()
		f.span.Finished(f.last.FinishReason.Name(), f.IsStopped(), failed)
		if f.adapter.good != nil && !failed && !f.IsStopped() {
			f.adapter.good()
		}
	default:
		f.span.Dropped()
	}
}
