package drt

import (
	"context"
	"iter"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/cancel"
)

// Request is what a caller sends to an endpoint.
type Request struct {
	// Payload is the request itself, as JSON.
	Payload json.RawMessage
	// Headers go with it: traceparent, tracestate, request-id, x-request-id and whatever else; keys in lower case.
	Headers map[string]string
	// Size is how long the request was on the wire, in bytes; set for handlers.
	Size int
	// SentNS is when the caller sent it, as Unix time in ns; 0: unknown.
	SentNS uint64
}

// Item is one element of a response. Of a handler's item the data is read before the next one.
type Item struct {
	Data    json.RawMessage `json:"data,omitempty"`
	ID      string          `json:"id,omitempty"`
	Event   string          `json:"event,omitempty"`
	Comment []string        `json:"comment,omitempty"`

	// Last means that nothing follows. A handler sets it on its terminal item, so
	// that a stop which crosses it is not counted as a cancellation.
	Last bool `json:"-"`
	// More means that the next item can be had without waiting. A handler sets it so that both
	// go in one write; it is set for callers, too.
	More bool `json:"-"`
	// At is when the frame of the item was read; set for callers.
	At time.Time `json:"-"`
}

// Handler answers the requests of an endpoint. It is called concurrently.
//
// An error it returns is that of the call. Later ones it yields, as the last item: callers get them with their type. rc
// asks for the end of the request; ctx ends when the items are read no more, on every path, and knows
// rc (cancel.From). Both must be passed on to calls the handler makes.
type Handler func(ctx context.Context, rc cancel.Context, rq *Request) (iter.Seq2[Item, error], error)
