package kvroute_test

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
)

// piece is a chunk, and when it was read.
type piece struct {
	*engine.Chunk
	At time.Time
}

// answer is what an engine says to a request. Its pieces are to be read to the
// end, or it is to be closed.
type answer struct {
	// Instance is the worker that answers.
	Instance uint64
	// Admitted is when the worker had taken the request.
	Admitted time.Time

	items iter.Seq2[drt.Item, error]
	close func()
}

// newAnswer is the answer that comes over a stream.
func newAnswer(s *drt.Stream) *answer {
	return &answer{Instance: s.Instance, Admitted: s.Admitted, items: s.Items(), close: s.Close}
}

// Close ends an answer that is not read to its end; its request is killed.
func (a *answer) Close() { a.close() }

// Pieces are the chunks, to be ranged over once. The last one has a finish
// reason, or is an error: an answer that ends without either was cut off by its
// own caller's stop.
func (a *answer) Pieces() iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		for item, err := range a.items {
			p := piece{At: item.At}
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

// askedEndpoint asks the instances of an endpoint.
type askedEndpoint struct {
	Client *drt.Client
	Route  drt.Route // nil: round robin
}

// Ask asks the instance that the route chooses.
func (e askedEndpoint) Ask(ctx context.Context, rc cancel.Context, rq *engine.Request, headers map[string]string) (*answer, error) {
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
	return newAnswer(s), nil
}
