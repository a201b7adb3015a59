package openai

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/fault"
)

// Error is an answer that is an error.
type Error struct {
	Status     int    // of HTTP
	Type       string // for clients; "": that of the status
	Param      string // the parameter that is wrong; "": none in particular
	Message    string
	RetryAfter int  // seconds after which to ask again; 0: not told
	Flat       bool // the answer is the error itself, as of SGLang's server, not an object that has it
}

func (e *Error) Error() string { return e.Message }

// Refuse returns the error of a request that makes no sense, because of a parameter if
// that is not "".
func Refuse(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

// UnknownModel returns the error of a request for a model that is not served; served are the names of the
// models that are.
func UnknownModel(name string, served []string) *Error {
	message := fmt.Sprintf("model %.100q is not served", name)
	if len(served) > 0 {
		message += ": must be one of " + strings.Join(served, ", ")
	}
	return &Error{Status: http.StatusNotFound, Param: "model", Message: message}
}

// ErrorOf returns the error that clients receive for err.
func ErrorOf(err error) *Error {
	var e *Error
	is := func(types ...fault.Type) bool { return fault.MatchChain(err, types, nil) }
	switch {
	case errors.As(err, &e):
		return e
	case is(fault.ResourceExhausted):
		return &Error{Status: http.StatusServiceUnavailable, Message: err.Error(), RetryAfter: 1}
	case errors.Is(err, drt.ErrNoInstances):
		return &Error{Status: http.StatusServiceUnavailable, Message: err.Error()}
	case is(fault.CannotConnect), errors.Is(err, drt.ErrGone): // the way to the workers is cut for now
		return &Error{Status: http.StatusServiceUnavailable, Message: err.Error(), RetryAfter: 1}
	case is(fault.InvalidArgument, fault.BackendInvalidArgument):
		return &Error{Status: http.StatusBadRequest, Message: err.Error()}
	}
	return &Error{Status: http.StatusInternalServerError, Message: err.Error()}
}

// kind returns the type of the error in responses.
func (e *Error) kind() string {
	if e.Type != "" {
		return e.Type
	}
	switch e.Status {
	case http.StatusNotFound:
		return "NotFoundError"
	case http.StatusMethodNotAllowed:
		return "MethodNotAllowedError"
	case http.StatusRequestTimeout:
		return "RequestTimeoutError"
	case http.StatusTooManyRequests:
		return "RateLimitError"
	case http.StatusServiceUnavailable:
		return "ServiceUnavailableError"
	}
	if e.Status >= http.StatusInternalServerError {
		return "InternalServerError"
	}
	return "BadRequestError"
}

// Parameter returns the key of the body that is wrong, body where all of it is, and "" if
// none is.
func (e *Error) Parameter() string {
	inside, found := strings.CutPrefix(e.Param, "body.")
	key, _, _ := strings.Cut(inside, ".")
	if found && strings.Trim(key, "0123456789") == "" {
		return "body"
	}
	return key
}

// AppendJSON appends the error as OpenAI's object.
func (e *Error) AppendJSON(dst []byte) []byte {
	type body struct {
		Object  string  `json:"object,omitempty"`
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	}
	one := body{"", e.Message, e.kind(), orNull(e.Param), e.Status}
	whole := any(map[string]body{"error": one})
	if e.Flat {
		one.Object = "error"
		whole = one
	}
	b, err := json.MarshalUnescaped(whole)
	if err != nil {
		panic(err) // texts and a number cannot fail
	}
	return append(dst, b...)
}

// orNull returns nil for "".
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
