// Package remote asks engines that are served elsewhere: requests and chunks
// instead of the JSON that package drt carries.
//
//	answer, err := remote.Endpoint{Client: client, Route: drt.RoundRobin()}.Ask(ctx, rc, rq, nil)
//	for piece, err := range answer.Pieces() { … }
package remote

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/replay-llm/replay/cancel"
	"github.com/replay-llm/replay/drt"
	"github.com/replay-llm/replay/engine"
	"github.com/replay-llm/replay/engine/fault"
)

// Asker asks some engine.
type Asker interface {
	// Ask returns once an engine has taken the request. headers go with it, by
	// lower-case name. Errors are *engine.Error. Stopping or killing rc stops or
	// kills the request; the end of ctx kills it.
	Ask(ctx context.Context, rc cancel.Context, rq *engine.Request, headers map[string]string) (*Answer, error)
}

// Piece is a chunk, and when it was read.
type Piece struct {
	*engine.Chunk
	At time.Time
}

// Answer is what an engine says to a request. Its pieces are to be read to the
// end, or it is to be closed.
type Answer struct {
	// Instance is the worker that answers.
	Instance uint64
	// Admitted is when the worker had taken the request.
	Admitted time.Time

	items iter.Seq2[drt.Item, error]
	close func()
}

// NewAnswer is the answer that comes over a stream.
func NewAnswer(s *drt.Stream) *Answer {
	return &Answer{Instance: s.Instance, Admitted: s.Admitted, items: s.Items(), close: s.Close}
}

// Close ends an answer that is not read to its end; its request is killed.
func (a *Answer) Close() { a.close() }

// Pieces are the chunks, to be ranged over once. The last one has a finish
// reason, or is an error: an answer that ends without either was cut off by its
// own caller's stop.
func (a *Answer) Pieces() iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		for item, err := range a.items {
			p := Piece{At: item.At}
			if err == nil {
				p.Chunk, err = chunk(&item)
			}
			if err != nil {
				yield(p, fault.From(err))
				return
			}
			if p.Chunk == nil {
				continue // a comment
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

// chunk is an item's, nil if it has none.
func chunk(item *drt.Item) (*engine.Chunk, error) {
	if len(item.Data) == 0 {
		return nil, nil
	}
	c := new(engine.Chunk)
	if err := json.Unmarshal(item.Data, c); err != nil {
		return nil, fault.New(fault.Unknown, "chunk: %w", err)
	}
	if message, bad := c.FinishReason.ErrorMessage(); bad {
		return c, fault.New(fault.Unknown, "%s", message)
	}
	return c, nil
}

// Endpoint asks the instances of an endpoint.
type Endpoint struct {
	Client *drt.Client
	Route  drt.Route // nil: round robin
}

// Ask asks the instance that the route chooses.
func (e Endpoint) Ask(ctx context.Context, rc cancel.Context, rq *engine.Request, headers map[string]string) (*Answer, error) {
	payload, err := json.Marshal(rq)
	if err != nil {
		return nil, fault.New(fault.InvalidArgument, "request: %w", err)
	}
	route := e.Route
	if route == nil {
		route = drt.RoundRobin()
	}
	s, err := e.Client.Generate(ctx, rc, &drt.Request{Payload: payload, Headers: headers}, route)
	if err != nil {
		return nil, fault.From(err)
	}
	return NewAnswer(s), nil
}
