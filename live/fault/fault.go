// Package fault defines the errors between a served engine and its callers: a type from a short list, a message, and
// a cause.
//
// An error inside an engine has a Backend type. An error of a transport, router or frontend has a type without
// Backend. Callers check types with errors.Is:
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

// Type is the type of an error. A Type is itself an error: errors.Is(err, t) reports whether a chain has an error of
// exactly this type.
type Type string

// Types of errors of transport, router and frontend.
const (
	Unknown           Type = "Unknown"
	InvalidArgument   Type = "InvalidArgument"   // the request must be changed; do not retry
	CannotConnect     Type = "CannotConnect"     // no process could be reached
	Disconnected      Type = "Disconnected"      // the peer disconnected
	ConnectionTimeout Type = "ConnectionTimeout" // the worker did not call home in time
	ResponseTimeout   Type = "ResponseTimeout"   // the peer sent nothing for too long
	Cancelled         Type = "Cancelled"         // the caller cancelled the request
	ResourceExhausted Type = "ResourceExhausted" // all workers are busy; a retry may succeed
)

// Types of errors of a served engine.
const (
	BackendUnknown           Type = "Backend(Unknown)"
	BackendInvalidArgument   Type = "Backend(InvalidArgument)"
	BackendCannotConnect     Type = "Backend(CannotConnect)"
	BackendDisconnected      Type = "Backend(Disconnected)"
	BackendConnectionTimeout Type = "Backend(ConnectionTimeout)"
	BackendResponseTimeout   Type = "Backend(ResponseTimeout)"
	BackendCancelled         Type = "Backend(Cancelled)"
	BackendEngineShutdown    Type = "Backend(EngineShutdown)"   // the engine is shutting down or is not running
	BackendStreamIncomplete  Type = "Backend(StreamIncomplete)" // the stream ended without a terminal
)

// listTypes returns all types.
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

// Variant returns the name inside Backend(…), and false for other types.
func (t Type) Variant() (string, bool) {
	inner, ok := strings.CutPrefix(string(t), "Backend(")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(inner, ")")
}

// Backend returns t if it is a Backend type. For other types, Backend returns the Backend type with the same name, or
// BackendUnknown if there is none.
func (t Type) Backend() Type {
	if _, ok := t.Variant(); ok {
		return t
	}
	if b := Type("Backend(" + string(t) + ")"); slices.Contains(listTypes(), b) {
		return b
	}
	return BackendUnknown
}

// Error is an error that is sent over the wire.
type Error struct {
	Type    Type
	Message string
	Cause   error // may be nil

	// origin is the error that From converted. errors.Is and errors.As use origin instead of Cause. origin is not
	// sent over the wire.
	origin error
}

// New returns an Error with a message like fmt.Errorf. The operand of %w is the cause.
func New(t Type, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	if cause := errors.Unwrap(err); cause != nil {
		return &Error{Type: t, Message: err.Error(), Cause: cause}
	}
	return &Error{Type: t, Message: err.Error(), origin: asJoined(err)}
}

// asJoined returns err if it wraps several errors, and nil otherwise.
func asJoined(err error) error {
	if _, many := err.(interface{ Unwrap() []error }); many {
		return err
	}
	return nil
}

// Error returns type, message and cause. The cause is omitted if the message contains it.
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

// Unwrap returns the converted error or the cause.
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

// From converts err to an Error, nil to nil. An Error is returned unchanged. An error that wraps an Error gets its
// type and keeps its own text. All other errors get the type Unknown. errors.Is and errors.As find the same errors as
// in err.
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

// FromEngine is From with a Backend type, for errors of an engine. If no Backend type has the same name, the error
// from From is the cause.
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

// MatchChain reports whether a type in err's chain of causes is in match and no type is in exclude.
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

// appendTypes appends the types in err's chain.
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
