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

// Error is an error response.
type Error struct {
	Status     int    // HTTP status
	Type       string // error type in the response; "": the default of the status
	Param      string // the parameter that is wrong; "": no specific parameter
	Message    string
	RetryAfter int  // Retry-After in seconds; 0: none
	Flat       bool // the body is the error object itself, as in SGLang's server; false: an object with the key error
}

func (e *Error) Error() string { return e.Message }

// Refuse returns a 400 error. param is the parameter that is wrong, or "".
func Refuse(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

// UnknownModel returns the error for a model that is not served. served lists the names of the served models.
func UnknownModel(name string, served []string) *Error {
	message := fmt.Sprintf("model %.100q is not served", name)
	if len(served) > 0 {
		message += ": must be one of " + strings.Join(served, ", ")
	}
	return &Error{Status: http.StatusNotFound, Param: "model", Message: message}
}

// ErrorOf returns the error response for err.
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
	case is(fault.CannotConnect), errors.Is(err, drt.ErrGone): // the connection to the workers is lost for now
		return &Error{Status: http.StatusServiceUnavailable, Message: err.Error(), RetryAfter: 1}
	case is(fault.InvalidArgument, fault.BackendInvalidArgument):
		return &Error{Status: http.StatusBadRequest, Message: err.Error()}
	}
	return &Error{Status: http.StatusInternalServerError, Message: err.Error()}
}

// kind returns the error type in responses.
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

// Parameter returns the key of the body that is wrong. Parameter returns "body" for the whole body, and "" for no
// specific key.
func (e *Error) Parameter() string {
	inside, found := strings.CutPrefix(e.Param, "body.")
	key, _, _ := strings.Cut(inside, ".")
	if found && strings.Trim(key, "0123456789") == "" {
		return "body"
	}
	return key
}

// AppendJSON appends the error in OpenAI's format.
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
		panic(err) // strings and a number always encode
	}
	return append(dst, b...)
}

// orNull returns nil for "", else a pointer to text.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
