package fault

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/internal/json"
)

// maxDepth is the maximum number of errors in an encoded or decoded chain. Longer chains are truncated.
const maxDepth = 32

// MarshalJSON encodes the type as a string, or as {"Backend":"variant"}.
func (t Type) MarshalJSON() ([]byte, error) {
	if v, ok := t.Variant(); ok {
		return json.Marshal(map[string]string{"Backend": v})
	}
	return json.Marshal(string(t))
}

// UnmarshalJSON decodes the output of MarshalJSON. An unknown type becomes Unknown or BackendUnknown.
func (t *Type) UnmarshalJSON(b []byte) error {
	var name string
	if err := json.Unmarshal(b, &name); err == nil {
		*t = knownOr(Type(name), Unknown)
		return nil
	}
	var nested map[string]json.RawMessage
	if err := json.Unmarshal(b, &nested); err != nil {
		return fmt.Errorf(`error_type is %.80s, must be a name or {"Backend":name}`, b)
	}
	inner, ok := nested["Backend"]
	if !ok {
		*t = Unknown
		return nil
	}
	*t = BackendUnknown
	if json.Unmarshal(inner, &name) == nil {
		*t = knownOr(Type("Backend("+name+")"), BackendUnknown)
	}
	return nil
}

func knownOr(t, other Type) Type {
	if slices.Contains(listTypes(), t) {
		return t
	}
	return other
}

// wire is the JSON of an Error.
type wire struct {
	Type     Type   `json:"error_type"`
	Message  string `json:"message"`
	CausedBy *wire  `json:"caused_by,omitempty"`
}

// MarshalJSON encodes the error as {"error_type":…,"message":…,"caused_by":…}.
func (e *Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(e.toWire(maxDepth))
}

func (e *Error) toWire(depth int) *wire {
	w := &wire{Type: e.Type, Message: e.Message}
	if e.Cause != nil && depth > 1 {
		w.CausedBy = From(e.Cause).toWire(depth - 1)
	}
	return w
}

// UnmarshalJSON decodes the output of MarshalJSON. A missing error_type becomes Unknown.
func (e *Error) UnmarshalJSON(b []byte) error {
	var w wire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*e = *w.toError(maxDepth)
	return nil
}

func (w *wire) toError(depth int) *Error {
	e := &Error{Type: w.Type, Message: w.Message}
	if e.Type == "" {
		e.Type = Unknown
	}
	if w.CausedBy != nil && depth > 1 {
		e.Cause = w.CausedBy.toError(depth - 1)
	}
	return e
}
