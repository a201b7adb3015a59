package engine

import (
	"context"
	"github.com/goccy/go-json"
	"iter"
	"maps"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/telemetry"
)

// Target takes requests: an engine in this process (Adapter), or the
// workers of an endpoint (Remote). The rules are those of Adapter.Generate.
type Target interface {
	Generate(ctx context.Context, rc cancel.Context, rq *Request, headers map[string]string) (iter.Seq2[*Chunk, error], error)
}

// Handler serves the engine to an endpoint of the distributed runtime. id is the
// worker's, for its spans.
func (a *Adapter) Handler(name drt.Name, id func() uint64) drt.Handler {
	return func(ctx context.Context, rc cancel.Context, rq *drt.Request) (iter.Seq2[drt.Item, error], error) {
		worker := telemetry.Name{Namespace: name.Namespace, Component: name.Component, Endpoint: name.Endpoint, WorkerID: id()}
		ctx, span := a.Tracing.StartPayload(ctx, worker, rc.ID(), rq.Headers)
		chunks, err := a.generateDecoded(ctx, rc, rq)
		if err != nil {
			span.Fail(err)
			span.End()
			return nil, err
		}
		return func(yield func(drt.Item, error) bool) {
			defer span.End()
			for c, err := range chunks {
				item, err := encodeItem(c, err)
				if err != nil {
					span.Fail(err)
				}
				if !yield(item, err) {
					return
				}
			}
		}, nil
	}
}

func (a *Adapter) generateDecoded(ctx context.Context, rc cancel.Context, rq *drt.Request) (iter.Seq2[*Chunk, error], error) {
	decoded, err := DecodeRequest(rq.Payload)
	if err != nil {
		return nil, fault.FromEngine(err)
	}
	return a.Generate(ctx, rc, decoded, rq.Headers)
}

// encodeItem returns an element as the runtime sends it.
func encodeItem(c *Chunk, err error) (drt.Item, error) {
	if err != nil {
		return drt.Item{}, err
	}
	data, err := json.Marshal(c)
	if err != nil {
		return drt.Item{}, fault.New(fault.BackendUnknown, "chunk: %w", err)
	}
	return drt.Item{Data: data, Last: c.FinishReason != ""}, nil
}

// Remote is the workers of an endpoint, as a Target.
type Remote struct {
	client *drt.Client
	route  drt.Route

	// Taken, when not nil, is called with the worker that has taken the request, and
	// when it did; Read with each chunk and when it was read.
	Taken func(worker uint64, at time.Time)
	Read  func(c *Chunk, at time.Time)
}

// NewRemote returns the workers that client knows. route chooses among them.
func NewRemote(client *drt.Client, route drt.Route) *Remote {
	return &Remote{client: client, route: route}
}

// Generate sends the request to a worker. Errors, returned and yielded, are
// *Error: of a Backend type if the worker's engine said so, of another if the
// worker could not be reached or its stream broke.
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
				continue // a comment
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

// parseChunk reads an element of a stream.
func parseChunk(item drt.Item, err error) (*Chunk, error) {
	if err != nil {
		return nil, fault.From(err)
	}
	c := new(Chunk)
	if err := json.Unmarshal(item.Data, c); err != nil {
		return nil, fault.New(fault.Unknown, "stream item: %w", err)
	}
	return c, nil
}
