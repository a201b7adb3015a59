package drt

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/replay-llm/replay/live/cancel"
)

// Request is what a caller sends to an endpoint.
type Request struct {
	// Payload is the request itself, as JSON.
	Payload json.RawMessage
	// Headers go with it: traceparent, tracestate, request-id, x-request-id and
	// whatever else; keys in lower case.
	Headers map[string]string
	// Size is how long the request was on the wire, in bytes; set for handlers.
	Size int
	// SentNS is when the caller sent it, as Unix time in ns; 0: it did not say.
	SentNS uint64
}

// Item is one element of a response.
type Item struct {
	Data    json.RawMessage `json:"data,omitempty"`
	ID      string          `json:"id,omitempty"`
	Event   string          `json:"event,omitempty"`
	Comment []string        `json:"comment,omitempty"`

	// Last says that nothing follows. A handler sets it on its terminal item, so
	// that a stop which crosses it is not counted as a cancellation.
	Last bool `json:"-"`
	// At is when the frame of the item was read; set for callers.
	At time.Time `json:"-"`
}

// Handler answers the requests of an endpoint. It is called concurrently.
//
// An error it returns is that of the call. Later ones it yields, as the last
// item: callers get them with their type. rc says that somebody wants the
// request to end; ctx ends when nobody reads its items any more, on every path,
// and knows rc (cancel.From). Both must be passed on to calls the handler makes.
type Handler func(ctx context.Context, rc cancel.Context, rq *Request) (iter.Seq2[Item, error], error)

// EndpointMetrics is told what happens to the requests of one endpoint. Methods
// are called concurrently and must not block.
type EndpointMetrics interface {
	// Received counts a request that came in, of so many bytes on the wire.
	// transit is how long it took to get here; 0: the caller did not say.
	Received(bytes int, transit time.Duration)
	// Started and Finished surround a request that was taken.
	Started()
	Finished(took time.Duration)
	// First is the time from the request to its first item.
	First(took time.Duration)
	// Sent counts bytes of items.
	Sent(bytes int)
	// Failed counts an error: "deserialization", "invalid_message",
	// "response_stream", "generate", "publish_response" or "publish_final".
	Failed(kind string)
	// Cancelled counts a request that got a signal to end; once for each.
	Cancelled()
}

// ClientMetrics is told what happens to calls. Methods are called concurrently
// and must not block.
type ClientMetrics interface {
	// Started and Finished surround a call, until its stream has ended.
	Started()
	Finished()
	// Queued is the time from the call to the moment its request was sent.
	Queued(took time.Duration)
	// Sent is the time to the worker's acknowledgement.
	Sent(took time.Duration)
	// First is the time from sending to the first item.
	First(took time.Duration)
}

// noMetrics is for those who do not count.
type noMetrics struct{}

func (noMetrics) Received(int, time.Duration) {}
func (noMetrics) Started()                    {}
func (noMetrics) Finished(time.Duration)      {}
func (noMetrics) First(time.Duration)         {}
func (noMetrics) Sent(int)                    {}
func (noMetrics) Failed(string)               {}
func (noMetrics) Cancelled()                  {}

// noClientMetrics is for callers who do not count.
type noClientMetrics struct{}

func (noClientMetrics) Started()             {}
func (noClientMetrics) Finished()            {}
func (noClientMetrics) Queued(time.Duration) {}
func (noClientMetrics) Sent(time.Duration)   {}
func (noClientMetrics) First(time.Duration)  {}
