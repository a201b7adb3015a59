package drt

import (
	"errors"
	"fmt"
	"strings"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/wire"
	"github.com/replay-llm/replay/live/fault"
)

// ErrLeaseLost means that the lease of a runtime was lost.
var ErrLeaseLost = errors.New("the lease is lost")

// ErrNoInstances means that the called endpoint or instance is not served, and nothing was sent. ErrNoInstances is
// the cause of a CannotConnect.
var ErrNoInstances = errors.New("no instances")

// refusalError returns the caller's error for a worker's refusal.
func refusalError(r *refusal) error {
	switch {
	case r == nil:
		return nil
	case r.code == "400":
		return fault.New(fault.InvalidArgument, "%s", r.text)
	case r.code == "503":
		return fault.New(fault.CannotConnect, "%s: %w", r.text, ErrNoInstances)
	}
	return fault.New(fault.CannotConnect, "%s", r.text)
}

// eventError is the event of an error item.
const eventError = "error"

// wireItem is an item or an error as JSON.
type wireItem struct {
	Item
	Error json.RawMessage `json:"error,omitempty"`
}

// errorItem encodes err as the last item of a stream.
func errorItem(err error) json.RawMessage {
	b, bad := json.Marshal(fault.From(err))
	if bad != nil {
		b = []byte(`{"error_type":"Unknown","message":""}`)
	}
	item, bad := json.Marshal(wireItem{Item{Event: eventError}, b})
	if bad != nil {
		panic("an error is no JSON: " + bad.Error())
	}
	return item
}

// The JSON around the data of an item with data only.
const itemHead, itemTail = `{"data":`, `}`

// appendItem appends the JSON of an item.
func appendItem(dst []byte, i *Item) ([]byte, error) {
	if len(i.Data) == 0 || i.ID != "" || i.Event != "" || len(i.Comment) > 0 {
		b, err := json.Marshal(i)
		return append(dst, b...), err
	}
	return append(append(append(dst, itemHead...), i.Data...), itemTail...), nil
}

// parseItem parses an item. failed is the error in an error item, bad the error if b is not an item.
func parseItem(b json.RawMessage) (item Item, failed, bad error) {
	if data, ok := wire.Member(b, itemHead, itemTail); ok {
		return Item{Data: data}, nil, nil
	}
	var w wireItem
	if err := json.Unmarshal(b, &w); err != nil {
		return Item{}, nil, fmt.Errorf("item %.60q: %w", b, err)
	}
	if w.Event != eventError && len(w.Error) == 0 {
		return w.Item, nil, nil
	}
	var typed fault.Error
	if len(w.Error) > 0 && json.Unmarshal(w.Error, &typed) == nil {
		return w.Item, &typed, nil
	}
	var text string
	if json.Unmarshal(w.Error, &text) != nil {
		text = strings.Join(w.Comment, ": ")
	}
	return w.Item, fault.New(fault.Unknown, "%s", text), nil
}

// errUnsettled means that the request plane caused the error, not an instance.
var errUnsettled = errors.New("the request plane is away, or was until just now")

// ErrGone means that an instance left discovery before it accepted the request.
var ErrGone = errors.New("is gone")

// errSilent means that an instance sent no heartbeat.
var errSilent = errors.New("no sign of life")

// isSilent reports whether err means that an instance hangs or cannot be reached.
func isSilent(err error) bool {
	return errors.Is(err, errSilent) || errors.Is(err, ErrGone) || errors.Is(err, fault.ConnectionTimeout)
}

// isInstanceTrouble reports whether err means that its instance is in trouble.
func isInstanceTrouble(err error) bool {
	return !errors.Is(err, errUnsettled) && fault.MatchChain(err, []fault.Type{
		fault.CannotConnect, fault.Disconnected, fault.ConnectionTimeout, fault.ResponseTimeout, fault.BackendEngineShutdown,
	}, nil)
}
