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

// abortLimit is how long an Abort may delay the end of its request. An Abort must not block.
const abortLimit = time.Second

// The readers of a sequence.
const (
	noReader int32 = iota
	consumer
	dropper // the consumer's ctx ended, or the request was killed, before the consumer began to read
)

// generation is one request in an engine, from Generate to its end.
type generation struct {
	cancel.Context // context of the request
	adapter        *Adapter
	metadata       map[string]string
	chunks         iter.Seq2[*Chunk, error]
	ctx            context.Context
	release        context.CancelFunc // releases ctx
	span           *telemetry.Generation

	reader atomic.Int32  // reader of the sequence: noReader, consumer or dropper
	once   sync.Once     // closes first once
	first  chan struct{} // closed when Abort may be called: at the first token on decode workers, at once on other workers
	done   chan struct{} // closed at the end of the sequence
	quiet  chan struct{} // closed after the last call of Abort

	yield    func(*Chunk, error) bool // yield function of the consumer
	yielding bool                     // the consumer is running, and a panic is its own
	stopped  bool                     // the request was stopped before the end of its sequence; set before done is closed

	stamped bool   // a chunk with the ids of the span was yielded
	over    bool   // no more elements are yielded
	last    *Chunk // the terminal chunk
	failed  *Error // the terminal error
}

// NotifyFirstToken allows Abort to be called.
func (g *generation) NotifyFirstToken() { g.once.Do(func() { close(g.first) }) }

// Metadata returns the request's headers.
func (g *generation) Metadata() map[string]string { return g.metadata }

// watchSignals calls Abort when the request is stopped or killed, and ends the engine's ctx when it is killed.
// watchSignals ends with the sequence.
func (g *generation) watchSignals() {
	defer close(g.quiet)
	gone, aborting, killed := g.ctx.Done(), g.Stopped(), g.Killed()
	var first <-chan struct{}
	for {
		select {
		case <-g.done:
			// The stop may have arrived before the end and not have been handled.
			if g.stopped && (aborting != nil || first != nil) {
				select {
				case <-g.first:
					g.callAbort()
				default:
				}
			}
			return
		case <-aborting:
			aborting, first = nil, g.first
		case <-first:
			first = nil
			g.callAbort()
		case <-killed:
			killed = nil
			g.release()
		case <-gone:
			gone = nil
			if g.reader.CompareAndSwap(noReader, dropper) { // else the consumer ends it
				go g.dropSequence()
			}
		}
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

// dropSequence ends a request when its consumer has left without reading. dropSequence reads one element of the
// sequence and drops it, so that the engine can release its resources.
func (g *generation) dropSequence() {
	defer g.endSequence()
	defer g.span.Dropped()
	g.pullChunks(func(*Chunk, error) bool { return false })
}

// forwardChunks is the sequence for the consumer. If the sequence was dropped, it has no elements, and it ends after
// the last call of Abort, like every sequence.
func (g *generation) forwardChunks(yield func(*Chunk, error) bool) {
	if !g.reader.CompareAndSwap(noReader, consumer) {
		if g.reader.Load() == dropper {
			<-g.done
			g.awaitAbort()
		}
		return
	}
	g.yield = yield
	defer g.endSequence()
	defer g.endSpan()
	if err := g.pullChunks(g.forwardChunk); err != nil && !g.over {
		g.yieldError(err)
	}
	if !g.over && !g.IsStopped() && g.ctx.Err() == nil {
		g.yieldError(fault.New(fault.BackendStreamIncomplete, "the engine's stream ended without a terminal"))
	}
}

// pullChunks reads the engine's sequence until take returns false. A panic of the engine is returned as an error. A
// panic after the end of the stream violates the contract: it is logged, or repeated if the adapter validates.
func (g *generation) pullChunks(take func(*Chunk, error) bool) (failed error) {
	ended := false
	defer func() {
		p := recover()
		switch {
		case p == nil:
		case isViolation(p), g.yielding:
			panic(p)
		case ended:
			g.adapter.Log.ErrorContext(g.ctx, "engine contract: the engine continued after the end of its stream", "request", g.ID(), "panic", p)
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
			g.release() // ends pending calls in the engine
			break
		}
	}
	return nil
}

// endSequence releases the resources at the end of the sequence.
func (g *generation) endSequence() {
	g.stopped = g.IsStopped()
	g.release()
	close(g.done)
	if !g.awaitAbort() {
		g.adapter.Log.Error("engine contract: Abort blocks", "request", g.ID(), "for", abortLimit)
	}
}

// awaitAbort waits for the last call of Abort, and reports whether the call returned within abortLimit.
func (g *generation) awaitAbort() bool {
	limit := time.NewTimer(abortLimit)
	defer limit.Stop()
	select {
	case <-g.quiet:
		return true
	case <-limit.C:
		return false
	}
}

// forwardChunk forwards one element of the engine. forwardChunk reports whether more elements may follow.
func (g *generation) forwardChunk(c *Chunk, err error) bool {
	switch {
	case g.IsKilled():
		g.over = true
		return false
	case err != nil:
		g.yieldError(err)
		return false
	case c == nil:
		g.yieldError(fault.New(fault.BackendUnknown, "the engine yielded neither a chunk nor an error"))
		return false
	}
	if len(c.TokenIDs) > 0 {
		g.NotifyFirstToken()
	}
	g.span.Tokens(len(c.TokenIDs))
	c = g.addTraceLink(c)
	if c.FinishReason != "" {
		g.last, g.over = c, true
	}
	g.over = !g.yieldElement(c, nil) || g.over
	return !g.over
}

func (g *generation) yieldError(err error) {
	g.failed, g.over = fault.FromEngine(err), true
	g.yieldElement(nil, g.failed)
}

// yieldElement yields an element to the consumer.
func (g *generation) yieldElement(c *Chunk, err error) bool {
	g.yielding = true
	more := g.yield(c, err)
	g.yielding = false
	return more
}

// addTraceLink adds the ids of the span to the first chunk with tokens. On prefill workers addTraceLink adds the ids
// to the terminal if no chunk had tokens.
func (g *generation) addTraceLink(c *Chunk) *Chunk {
	if g.stamped || !g.span.Recording() {
		return c
	}
	if len(c.TokenIDs) == 0 && (g.adapter.Mode != Prefill || c.FinishReason == "") {
		return c
	}
	g.stamped = true
	trace, span := g.span.Link()
	copied := *c
	copied.WorkerTraceLink = &TraceLink{TraceID: trace, SpanID: span}
	return &copied
}

// endSpan ends the span with the outcome of the request.
func (g *generation) endSpan() {
	switch {
	case g.failed != nil:
		g.span.Failed(string(g.failed.Type), g.failed, g.IsStopped())
	case g.last != nil:
		_, failed := g.last.FinishReason.ErrorMessage()
		g.span.Finished(g.last.FinishReason.Name(), g.IsStopped(), failed)
		if g.adapter.good != nil && !failed && !g.IsStopped() {
			g.adapter.good()
		}
	default:
		g.span.Dropped()
	}
}
