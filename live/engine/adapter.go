package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"runtime/debug"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/telemetry"
)

// Adapter calls an engine for its callers, and enforces the contract of Engine: each stream has exactly one terminal,
// as its last element. Abort is called only for a stop or kill. All resources are released at every end. A panic of
// the engine fails only its own request.
//
// If the engine or its consumer misbehaves:
//
//	engine panics                    an error fault.BackendUnknown; all other requests continue
//	engine ends without a terminal   an error fault.BackendStreamIncomplete; no error if the request was stopped
//	engine yields after its terminal the stream is cut off and logged; a panic if the adapter validates
//	engine ignores a stop            its chunks are forwarded up to its terminal; a kill ends the stream at the next chunk
//	consumer stops reading           ctx ends, the engine's yield returns false
//	consumer is slow                 the engine waits in yield
type Adapter struct {
	AdapterOptions
	engine   Engine
	validate bool   // panic on a chunk after the terminal: in tests and in builds with the tag debug
	good     func() // called after each successful request; may be nil
}

// AdapterOptions are the options of an adapter. The zero value is valid.
type AdapterOptions struct {
	Mode    Mode               // the default is Aggregated
	Tracing *telemetry.Tracing // nil: spans are not exported
	Log     *slog.Logger       // nil: no log
}

// NewAdapter returns an adapter for a started engine.
func NewAdapter(e Engine, o AdapterOptions) *Adapter {
	o.Mode = cmp.Or(o.Mode, Aggregated)
	if o.Tracing == nil {
		o.Tracing = telemetry.New(nil, "")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Adapter{AdapterOptions: o, engine: e, validate: debugBuild || testing.Testing()}
}

// Generate serves a request. Errors, returned or yielded, are *Error of a Backend type. A yielded error or a chunk
// with a finish reason is the last element. The sequence can be read once. A caller that does not read the sequence
// must end ctx.
//
// metadata is the headers of the request. Abort is called when rc is stopped or killed. The engine's ctx ends with
// the sequence, with ctx, and when rc is killed.
func (a *Adapter) Generate(ctx context.Context, rc cancel.Context, rq *Request, metadata map[string]string) (iter.Seq2[*Chunk, error], error) {
	rq, err := a.fitToMode(rq)
	if err != nil {
		return nil, err
	}
	g := &generation{Context: rc, adapter: a, metadata: metadata, first: make(chan struct{}), done: make(chan struct{}), quiet: make(chan struct{})}
	ctx, g.release = context.WithCancel(cancel.With(ctx, rc))
	if a.Mode != Decode {
		g.NotifyFirstToken() // aborts need not wait for the first token
	}
	start := telemetry.Start{Model: rq.Model, InputTokens: len(rq.TokenIDs), Role: string(a.Mode)}
	if l := rq.MigrationLink; l != nil {
		start.MigrationTraceID, start.MigrationSpanID = l.TraceID, l.SpanID
	}
	g.ctx, g.span = a.Tracing.StartGeneration(ctx, start)
	g.chunks, err = a.callEngine(g, rq)
	if err != nil {
		g.release()
		typed := fault.FromEngine(err)
		g.span.SetupFailed(string(typed.Type), typed)
		return nil, typed
	}
	g.span.Begun()
	go g.watchSignals()
	return g.forwardChunks, nil
}

// fitToMode adapts a request to the mode. Prefill workers generate one token. Decode workers require a prefill
// result, or bootstrap info, which the frontend of the published package sends while the prefill worker computes.
func (a *Adapter) fitToMode(rq *Request) (*Request, error) {
	switch {
	case a.Mode == Prefill:
		one := *rq
		one.SetMaxTokens(1)
		return &one, nil
	case a.Mode == Decode && rq.PrefillResult == nil && rq.BootstrapInfo != nil:
		params, err := json.Marshal(rq.BootstrapInfo)
		if err != nil {
			return nil, fault.New(fault.Unknown, "bootstrap: %w", err)
		}
		met := *rq
		met.PrefillResult = &PrefillResult{DisaggregatedParams: params}
		return &met, nil
	case a.Mode == Decode && rq.PrefillResult == nil && !rq.HealthCheck:
		return nil, fault.New(fault.BackendInvalidArgument, "request: prefill_result is missing, expected one on a decode worker")
	}
	return rq, nil
}

// callEngine calls the engine. A panic becomes the error of this request.
func (a *Adapter) callEngine(g *generation, rq *Request) (chunks iter.Seq2[*Chunk, error], err error) {
	defer func() {
		if p := recover(); p != nil {
			chunks, err = nil, a.recordPanic(g, p)
		}
	}()
	chunks, err = a.engine.Generate(g.ctx, rq, g)
	if err == nil && chunks == nil {
		err = fault.New(fault.BackendUnknown, "engine: Generate returned neither a sequence nor an error")
	}
	return chunks, err
}

// recordPanic logs a panic of the engine and returns it as an error.
func (a *Adapter) recordPanic(g *generation, p any) error {
	a.Log.ErrorContext(g.ctx, "engine panicked", "request", g.ID(), "panic", p, "stack", string(debug.Stack()))
	if cause, ok := p.(error); ok {
		return fault.New(fault.BackendUnknown, "engine panicked: %w", cause)
	}
	return fault.New(fault.BackendUnknown, "engine panicked: %v", p)
}

// violation is the panic value for a broken contract.
type violation struct{ word string }

func (v violation) Error() string { return "engine contract: " + v.word }

// isViolation reports whether a recovered panic is a violation.
func isViolation(p any) bool {
	err, ok := p.(error)
	var v violation
	return ok && errors.As(err, &v)
}

// isTerminal reports whether an element is a terminal.
func isTerminal(c *Chunk, err error) bool {
	return err != nil || c == nil || c.FinishReason != ""
}

// panicAfterTerminal returns chunks with a panic on an element after the terminal. After the terminal,
// panicAfterTerminal ignores the result of yield and continues to read, to detect such an element.
func panicAfterTerminal(chunks iter.Seq2[*Chunk, error]) iter.Seq2[*Chunk, error] {
	return func(yield func(*Chunk, error) bool) {
		ended := false
		chunks(func(c *Chunk, err error) bool {
			if ended {
				panic(violation{fmt.Sprintf("an element after the terminal: %s", describeElement(c, err))})
			}
			ended = isTerminal(c, err)
			return yield(c, err) || ended
		})
	}
}

// describeElement formats an element for messages.
func describeElement(c *Chunk, err error) string {
	switch {
	case err != nil:
		return "error " + err.Error()
	case c == nil:
		return "neither chunk nor error"
	case c.FinishReason != "":
		return fmt.Sprintf("a chunk with finish_reason %q", string(c.FinishReason))
	}
	return fmt.Sprintf("a chunk with %d tokens", len(c.TokenIDs))
}

// Target serves requests: an engine in this process (Adapter), or the workers of an endpoint (Remote). Target follows
// the rules of Adapter.Generate.
type Target interface {
	Generate(ctx context.Context, rc cancel.Context, rq *Request, headers map[string]string) (iter.Seq2[*Chunk, error], error)
}

// Handler returns the handler that serves the engine at an endpoint of the runtime. id returns the worker's id for
// spans.
func (a *Adapter) Handler(name drt.Name, id func() uint64) drt.Handler {
	return func(ctx context.Context, rc cancel.Context, rq *drt.Request) (iter.Seq2[drt.Item, error], error) {
		worker := telemetry.Name{Namespace: name.Namespace, Component: name.Component, Endpoint: name.Endpoint, WorkerID: id()}
		ctx, span := a.Tracing.StartPayload(ctx, worker, rc.ID(), rq.Headers)
		items, err := a.generateItems(ctx, rc, rq)
		return telemetry.Follow(span, items, err)
	}
}

// generateItems answers a request of the runtime.
func (a *Adapter) generateItems(ctx context.Context, rc cancel.Context, rq *drt.Request) (iter.Seq2[drt.Item, error], error) {
	decoded, err := DecodeRequest(rq.Payload)
	if err != nil {
		return nil, fault.FromEngine(err)
	}
	chunks, err := a.Generate(ctx, rc, decoded, rq.Headers)
	return func(yield func(drt.Item, error) bool) {
		var data []byte
		for c, err := range chunks {
			item := drt.Item{}
			if err == nil {
				if data, err = c.AppendJSON(data[:0]); err != nil {
					err = fault.New(fault.BackendUnknown, "chunk: %w", err)
				}
				item = drt.Item{Data: data, Last: c.FinishReason != "", More: c.More}
			}
			if !yield(item, err) {
				return
			}
		}
	}, err
}

// Remote is a Target that calls the workers of an endpoint.
type Remote struct {
	client *drt.Client
	route  drt.Route

	// Taken, if not nil, is called with the worker that has accepted the request, and the time. Read, if not nil, is
	// called with each chunk and the time of its read.
	Taken func(worker uint64, at time.Time)
	Read  func(c *Chunk, at time.Time)
}

// NewRemote returns a Remote for the workers of client, chosen by route.
func NewRemote(client *drt.Client, route drt.Route) *Remote {
	return &Remote{client: client, route: route}
}

// Generate sends the request to a worker. Errors, returned and yielded, are *Error. Errors of the worker's engine
// have a Backend type. If the worker could not be reached or its stream broke, the type is another.
func (r *Remote) Generate(ctx context.Context, rc cancel.Context, rq *Request, headers map[string]string) (iter.Seq2[*Chunk, error], error) {
	payload, err := json.Marshal(rq)
	if err != nil {
		return nil, fault.New(fault.InvalidArgument, "request: %w", err)
	}
	sent := make(map[string]string, len(headers)+2)
	maps.Copy(sent, headers)
	telemetry.Inject(ctx, sent)
	stream, err := r.client.Generate(ctx, rc, &drt.Request{Payload: payload, Headers: sent}, r.route)
	if err != nil {
		return nil, fault.From(err)
	}
	if r.Taken != nil {
		r.Taken(stream.Instance, stream.Admitted)
	}
	return func(yield func(*Chunk, error) bool) {
		for item, err := range stream.Items() {
			if err == nil && len(item.Data) == 0 {
				continue // an item with a comment only
			}
			c, err := parseChunk(item, err)
			if err == nil && r.Read != nil {
				r.Read(c, item.At)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}, nil
}

// parseChunk decodes an item of a stream.
func parseChunk(item drt.Item, err error) (*Chunk, error) {
	if err != nil {
		return nil, fault.From(err)
	}
	c, err := ParseChunk(item.Data)
	if err != nil {
		return nil, fault.New(fault.Unknown, "stream item: %w", err)
	}
	c.More = item.More
	return c, nil
}
