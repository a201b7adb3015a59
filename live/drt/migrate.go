package drt

import (
	"context"
	"errors"
	"fmt"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/fault"
)

// journey is a request that may continue at another instance after its instance has failed. The tokens of the failed
// instance are appended to its prompt.
type journey struct {
	client *Client
	ctx    context.Context
	rc     cancel.Context
	rq     *Request
	route  Route
	left   int // number of migrations that are still allowed
	// Remaining moves before the first item, and whether an item has arrived.
	unbegun int
	began   bool

	tokens []json.RawMessage // tokens received so far
	moved  int               // number of tokens before the last move
	link   json.RawMessage   // the worker_trace_link of the last instance, if sent
}

// mayMigrate reports whether a request may continue at another instance after err: err must be a failure of the
// instance and not of the request.
func mayMigrate(err error) bool {
	return fault.MatchChain(err, []fault.Type{
		fault.CannotConnect, fault.Disconnected, fault.ConnectionTimeout, fault.ResponseTimeout,
		fault.BackendEngineShutdown, fault.BackendStreamIncomplete,
	}, []fault.Type{fault.Cancelled, fault.InvalidArgument, fault.BackendInvalidArgument})
}

// sendFirst sends the request for the first time.
func (j *journey) sendFirst() (*Stream, error) {
	s, err := j.client.callInstance(j.ctx, j.rc, j.rq, j.route)
	if err != nil {
		if s = j.sendRest(err); s == nil {
			return nil, err
		}
	}
	s.journey = j
	return s, nil
}

// sendRest sends the remaining request to another instance. sendRest returns nil if no move is allowed or all moves
// fail.
func (j *journey) sendRest(err error) *Stream {
	for !j.rc.IsStopped() && j.ctx.Err() == nil && j.countMove(err) {
		rest, bad := j.restOfRequest()
		if bad != nil {
			j.client.rt.log.Warn("request does not migrate", "request", j.rc.ID(), "reason", bad)
			return nil
		}
		j.client.rt.log.Info("request migrates", "request", j.rc.ID(), "tokens", len(j.tokens), "reason", err)
		var s *Stream
		if s, err = j.client.callInstance(j.ctx, j.rc, rest, j.route); err == nil {
			j.moved = len(j.tokens)
			j.client.metrics.Moved(j.began)
			return s
		}
	}
	return nil
}

// countMove reports whether the request may move after err, and subtracts the move.
func (j *journey) countMove(err error) bool {
	switch {
	case j.unbegun > 0 && !j.began && isSilent(err):
		j.unbegun--
	case j.left > 0 && mayMigrate(err) && (j.began || !errors.Is(err, errUnsettled)): // after errUnsettled no instance can be reached
		j.left--
	default:
		return false
	}
	return true
}

// noteItem records the tokens of an item. After a move, noteItem changes the usage in the item to that of the
// complete request.
func (j *journey) noteItem(item *Item) {
	j.began = true
	if j.left == 0 && j.moved == 0 {
		return // no more migrations
	}
	var chunk struct {
		Tokens []json.RawMessage           `json:"token_ids"`
		Link   json.RawMessage             `json:"worker_trace_link"`
		Usage  *map[string]json.RawMessage `json:"completion_usage"`
	}
	if json.Unmarshal(item.Data, &chunk) != nil {
		return // the reader of the item reports the error
	}
	j.tokens = append(j.tokens, chunk.Tokens...)
	if len(chunk.Link) > 0 {
		j.link = chunk.Link
	}
	if chunk.Usage == nil || j.moved == 0 {
		return
	}
	shiftCount(*chunk.Usage, "prompt_tokens", -j.moved)
	shiftCount(*chunk.Usage, "completion_tokens", j.moved)
	whole, err := decodeObject(item.Data)
	if err != nil {
		return
	}
	whole["completion_usage"] = mustEncode(*chunk.Usage)
	item.Data = mustEncode(whole)
}

// restOfRequest returns the request with the received tokens in its prompt and lower token limits.
func (j *journey) restOfRequest() (*Request, error) {
	if len(j.tokens) == 0 {
		return j.rq, nil
	}
	whole, err := decodeObject(j.rq.Payload)
	if err != nil {
		return nil, err
	}
	var prompt []json.RawMessage
	if err := json.Unmarshal(whole["token_ids"], &prompt); err != nil {
		return nil, fmt.Errorf("token_ids: %w", err)
	}
	whole["token_ids"] = mustEncode(append(prompt, j.tokens...))
	if len(whole["stop_conditions"]) > 0 {
		stop, err := decodeObject(whole["stop_conditions"])
		if err != nil {
			return nil, fmt.Errorf("stop_conditions: %w", err)
		}
		shiftCount(stop, "max_tokens", -len(j.tokens))
		shiftCount(stop, "min_tokens", -len(j.tokens))
		whole["stop_conditions"] = mustEncode(stop)
	}
	if len(j.link) > 0 {
		whole["migration_link"] = j.link
	}
	next := *j.rq
	next.Payload = mustEncode(whole)
	return &next, nil
}

// rankedRequest returns a copy of an engine request with the rank in routing.dp_rank.
func rankedRequest(rq *Request, rank int32) (*Request, error) {
	whole, err := decodeObject(rq.Payload)
	var routing map[string]json.RawMessage
	if given := whole["routing"]; err == nil && len(given) > 0 {
		err = json.Unmarshal(given, &routing)
	}
	if err != nil {
		return nil, err
	}
	if routing == nil {
		routing = map[string]json.RawMessage{}
	}
	routing["dp_rank"] = mustEncode(rank)
	whole["routing"] = mustEncode(routing)
	next := *rq
	next.Payload = mustEncode(whole)
	return &next, nil
}

// shiftCount adds by to a number in a JSON object, if the key exists. The result is at least 0.
func shiftCount(o map[string]json.RawMessage, key string, by int) {
	var n int
	if json.Unmarshal(o[key], &n) == nil && len(o[key]) > 0 && string(o[key]) != "null" {
		o[key] = mustEncode(max(0, n+by))
	}
}

func decodeObject(b json.RawMessage) (o map[string]json.RawMessage, err error) {
	if err = json.Unmarshal(b, &o); err == nil && o == nil {
		err = fmt.Errorf("%.60q, must be an object", b)
	}
	return o, err
}

// mustEncode returns the JSON of v, which was decoded from JSON.
func mustEncode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%v: %v", v, err))
	}
	return b
}
