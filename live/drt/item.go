package drt

import (
	"context"
	"iter"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/cancel"
)

// Request is a request of a caller to an endpoint.
type Request struct {
	// Payload is the JSON of the request.
	Payload json.RawMessage
	// Headers are sent with the request, with keys in lower case, for example traceparent, tracestate, request-id and
	// x-request-id.
	Headers map[string]string
	// Size is the size of the request's frame in bytes. Size is set for handlers.
	Size int
	// SentNS is the time when the caller sent the request, as Unix time in ns; 0: unknown.
	SentNS uint64
}

// Item is one element of a response. The data of a handler's item is read before the handler yields the next item.
type Item struct {
	Data    json.RawMessage `json:"data,omitempty"`
	ID      string          `json:"id,omitempty"`
	Event   string          `json:"event,omitempty"`
	Comment []string        `json:"comment,omitempty"`

	// Last marks the last item. A handler sets Last on its terminal item. A stop that arrives after that item is then
	// not counted as a cancellation.
	Last bool `json:"-"`
	// More means that the next item is available without waiting. If a handler sets More, both items are sent in one
	// write. More is also set for callers.
	More bool `json:"-"`
	// At is when the item's frame was read. At is set for callers.
	At time.Time `json:"-"`
}

// Handler answers the requests of an endpoint. Handler is called concurrently.
//
// If a handler returns an error, the call fails with that error. A handler yields later errors as the last item, and
// callers receive them with their type. rc asks for the end of the request. ctx ends when no more items are read, on
// every path, and contains rc (cancel.From). The handler must pass both to its own calls.
type Handler func(ctx context.Context, rc cancel.Context, rq *Request) (iter.Seq2[Item, error], error)
