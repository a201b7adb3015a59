// Package fault holds the errors that cross the wire between a served engine and its callers: a type out of a
// short list, a message, and a cause.
//
// An error inside an engine has a Backend type. An error in transport, router or frontend has a type of the
// same list without Backend. Callers branch on types, with errors.Is:
//
//	if errors.Is(err, fault.BackendInvalidArgument) { … }
//
// Read fault.go, then json.go.
package fault

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Type is a kind of error. A Type is an error itself, so that
// errors.Is finds it in a chain; it compares for being exactly that type.
type Type string

// The types of transport, router and frontend.
const (
	Unknown           Type = "Unknown"
	InvalidArgument   Type = "InvalidArgument"   // the request cannot be served unchanged; do not retry
	CannotConnect     Type = "CannotConnect"     // no process was reached
	Disconnected      Type = "Disconnected"      // the other side went away in the middle
	ConnectionTimeout Type = "ConnectionTimeout" // the worker did not call back in time
	ResponseTimeout   Type = "ResponseTimeout"   // nothing came for too long
	Cancelled         Type = "Cancelled"         // the caller cancelled it
	ResourceExhausted Type = "ResourceExhausted" // all workers are busy; a retry may work
)

// The types of a served engine.
const (
	BackendUnknown           Type = "Backend(Unknown)"
	BackendInvalidArgument   Type = "Backend(InvalidArgument)"
	BackendCannotConnect     Type = "Backend(CannotConnect)"
	BackendDisconnected      Type = "Backend(Disconnected)"
	BackendConnectionTimeout Type = "Backend(ConnectionTimeout)"
	BackendResponseTimeout   Type = "Backend(ResponseTimeout)"
	BackendCancelled         Type = "Backend(Cancelled)"
	BackendEngineShutdown    Type = "Backend(EngineShutdown)"   // the engine is going, or was never there
	BackendStreamIncomplete  Type = "Backend(StreamIncomplete)" // the stream ended without a terminal
)

// listTypes lists all types there are.
func listTypes() []Type {
	return []Type{
		Unknown, InvalidArgument, CannotConnect, Disconnected,
		ConnectionTimeout, ResponseTimeout, Cancelled, ResourceExhausted,
		BackendUnknown, BackendInvalidArgument, BackendCannotConnect, BackendDisconnected,
		BackendConnectionTimeout, BackendResponseTimeout, BackendCancelled,
		BackendEngineShutdown, BackendStreamIncomplete,
	}
}

// Error returns the type's name.
func (t Type) Error() string { return string(t) }

// Variant returns the name inside Backend(…), and reports whether t is a Backend type.
func (t Type) Variant() (string, bool) {
	inner, ok := strings.CutPrefix(string(t), "Backend(")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(inner, ")")
}

// Backend returns the type as an engine reports it: itself if it is a Backend type,
// else the Backend type of that name, or BackendUnknown if an engine has none
// of that name.
func (t Type) Backend() Type {
	if _, ok := t.Variant(); ok {
		return t
	}
	if b := Type("Backend(" + string(t) + ")"); slices.Contains(listTypes(), b) {
		return b
	}
	return BackendUnknown
}

// Error is an error that crosses the wire.
type Error struct {
	Type    Type
	Message string
	Cause   error // what led to it; may be nil

	// origin is the error that From converted: errors.Is and errors.As read it instead of Cause, and it is never on the
	// wire.
	origin error
}

// New makes an error as fmt.Errorf does: the operand of %w becomes the cause.
func New(t Type, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	if cause := errors.Unwrap(err); cause != nil {
		return &Error{Type: t, Message: err.Error(), Cause: cause}
	}
	return &Error{Type: t, Message: err.Error(), origin: asJoined(err)}
}

// asJoined returns err if it wraps several errors, none of which is the cause.
func asJoined(err error) error {
	if _, many := err.(interface{ Unwrap() []error }); many {
		return err
	}
	return nil
}

// Error returns type and message, and the cause unless the message tells it.
func (e *Error) Error() string {
	text := string(e.Type) + ": " + e.Message
	if e.Message == "" {
		text = string(e.Type)
	}
	if e.Cause == nil {
		return text
	}
	cause := e.Cause.Error()
	if inner, ok := e.Cause.(*Error); ok && inner.Message != "" && strings.Contains(e.Message, inner.Message) {
		return text
	}
	if !strings.Contains(e.Message, cause) {
		text += ": " + cause
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error {
	if e.origin != nil {
		return e.origin
	}
	return e.Cause
}

// Is reports whether target is e's Type.
func (e *Error) Is(target error) bool {
	t, ok := target.(Type)
	return ok && t == e.Type
}

// From returns err as an Error, nil for nil. An Error stays unchanged. Around an Error, the result has the type
// of that Error and the text of err. Anything else is Unknown; errors.Is and errors.As see its chain as before.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok {
		return e
	}
	if t, ok := err.(Type); ok {
		return &Error{Type: t}
	}
	e := &Error{Type: Unknown, Message: err.Error(), origin: err}
	var inner *Error
	var bare Type
	switch {
	case errors.As(err, &inner):
		e.Type, e.Cause = inner.Type, inner
	case errors.As(err, &bare):
		e.Type = bare
	default:
		if cause := errors.Unwrap(err); cause != nil {
			e.Cause = From(cause)
		}
	}
	return e
}

// FromEngine is From for an error that leaves an engine: its type is a Backend
// type. If an engine has no type of that name, the error as it was is the cause.
func FromEngine(err error) *Error {
	e := From(err)
	if e == nil {
		return nil
	}
	t := e.Type.Backend()
	switch {
	case t == e.Type:
		return e
	case t == BackendUnknown && e.Type != Unknown:
		return &Error{Type: t, Message: e.Message, Cause: e}
	}
	return &Error{Type: t, Message: e.Message, Cause: e.Cause, origin: e.origin}
}

// MatchChain reads all types along err's chain of causes. It is false if any
// of them is in exclude, else true if any of them is in match.
func MatchChain(err error, match, exclude []Type) bool {
	found := false
	for _, t := range appendTypes(err, nil) {
		if slices.Contains(exclude, t) {
			return false
		}
		found = found || slices.Contains(match, t)
	}
	return found
}

// appendTypes appends the types along err's chain.
func appendTypes(err error, types []Type) []Type {
	switch e := err.(type) {
	case nil:
		return types
	case *Error:
		types = append(types, e.Type)
	case Type:
		types = append(types, e)
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return appendTypes(e.Unwrap(), types)
	case interface{ Unwrap() []error }:
		for _, branch := range e.Unwrap() {
			types = appendTypes(branch, types)
		}
	}
	return types
}
