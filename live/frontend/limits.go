package frontend

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// refusal is an answer that is an error.
type refusal struct {
	status int
	kind   string // type of the error, for clients
	text   string
}

func (r *refusal) Error() string { return r.text }

// errBusy means that the requests under way take all the room there is.
var errBusy = errors.New("too much is under way")

// readBody reads a body in the time and the room it may take. release gives the room
// back.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	most := int64(s.config.MaxBody)
	size := r.ContentLength
	if size > most {
		return nil, nil, tooLarge(most)
	}
	if size < 0 {
		size = most // it does not say
	}
	if !s.bodies.TryAcquire(size) {
		return nil, nil, errBusy
	}
	release = func() { s.bodies.Release(size) }
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.config.ReadBody))
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err == nil {
		// The deadline is for the body alone: later it would look as if the
		// client had left.
		_ = control.SetReadDeadline(time.Time{})
		return body, release, nil
	}
	release()
	w.Header().Set("Connection", "close")
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, nil, tooLarge(most)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, nil, &refusal{http.StatusRequestTimeout, "timeout", fmt.Sprintf("body: not whole after %v", s.config.ReadBody)}
	}
	return nil, nil, &refusal{http.StatusBadRequest, "invalid_request_error", fmt.Sprintf("body: %v", err)}
}

func tooLarge(most int64) error {
	return &refusal{http.StatusRequestEntityTooLarge, "invalid_request_error", fmt.Sprintf("body: want at most %d bytes", most)}
}
