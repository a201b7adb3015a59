package httpfault

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/internal/json"
)

// Path is the URL path at which clients read and replace faults.
const Path = "/replay/faults"

// Injector injects the faults of one server.
type Injector struct {
	Proven bool                                                           // every client is authenticated; false: only clients on loopback may replace faults
	Count  func(kind string)                                              // counts an injected fault
	Crash  func()                                                         // ends the server and its connections
	Fail   func(w http.ResponseWriter, status, retry int, message string) // writes an error in the format of the server

	now atomic.Pointer[state]
}

// state is a set of faults with the counts and the time since it was set.
type state struct {
	Faults
	since             time.Time
	requests, batches atomic.Uint64
}

// Set replaces the faults and resets the counts and the loading time. nil removes all faults.
func (i *Injector) Set(f *Faults) {
	if f == nil {
		f = &Faults{RetryAfterS: 1, QueueStatus: http.StatusServiceUnavailable}
	}
	i.now.Store(&state{Faults: *f, since: time.Now()})
}

// Faults returns the current faults.
func (i *Injector) Faults() *Faults { return &i.now.Load().Faults }

// isAnswer reports whether a request asks for tokens or embeddings.
func isAnswer(r *http.Request) bool {
	switch r.URL.Path {
	case "/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/generate":
		return r.Method != http.MethodGet
	}
	return false
}

// Wrap returns a handler that injects faults into the answers of next and serves Path.
func (i *Injector) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := i.now.Load()
		switch {
		case r.URL.Path == Path:
			i.serveFaults(w, r)
		case s.LoadingS > 0 && time.Since(s.since).Seconds() < s.LoadingS:
			i.Count(Loading)
			i.Fail(w, http.StatusServiceUnavailable, s.RetryAfterS, "the server is loading its model")
		case isAnswer(r):
			i.answer(s, next, w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// answer serves a request for tokens or embeddings and injects its faults.
func (i *Injector) answer(s *state, next http.Handler, w http.ResponseWriter, r *http.Request) {
	n := s.requests.Add(1)
	hits := func(kind string, rate float64) bool {
		hit := rate > 0 && s.draw(kind, n) < rate
		if hit {
			i.Count(kind)
		}
		return hit
	}
	if s.CrashAfterRequests > 0 && n >= uint64(s.CrashAfterRequests) {
		i.Count(Crash)
		i.Crash()
		panic(http.ErrAbortHandler)
	}
	if status := s.errorOf(n); status > 0 {
		i.Count(Error)
		i.Fail(w, status, s.RetryAfterS, "fault injected: status "+strconv.Itoa(status))
		return
	}
	if hits(Slow, s.SlowRate) && !awaitDelay(r.Context(), convertMS(s.SlowMS)) {
		return
	}
	out := &writer{ResponseWriter: w, client: r.Context(), cutAfter: -1, stallAfter: -1, chat: strings.HasSuffix(r.URL.Path, "chat/completions")}
	if hits(Cut, s.CutRate) {
		out.cutAfter = s.CutAfterTokens
	}
	if hits(Stall, s.StallRate) {
		out.stallAfter, out.stall = s.StallAfterTokens, convertMS(s.StallMS)
	}
	out.wrongUsage = hits(WrongUsage, s.WrongUsageRate)
	if out.cutAfter < 0 && out.stallAfter < 0 && !out.wrongUsage {
		next.ServeHTTP(w, r)
		return
	}
	next.ServeHTTP(out, r)
	if out.cut {
		panic(http.ErrAbortHandler)
	}
}

// KV reports whether the next batch of KV events is lost, and returns its delay.
func (i *Injector) KV() (lost bool, late time.Duration) {
	s := i.now.Load()
	if s.KVLostRate > 0 && s.draw(KVLost, s.batches.Add(1)) < s.KVLostRate {
		i.Count(KVLost)
		return true, 0
	}
	if s.KVLateMS > 0 {
		i.Count(KVLate)
	}
	return false, convertMS(s.KVLateMS)
}

// serveFaults serves GET and POST at Path. POST replaces the faults. GET and POST return the current faults.
func (i *Injector) serveFaults(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	switch {
	case !i.Proven && !net.ParseIP(host).IsLoopback():
		i.Fail(w, http.StatusForbidden, 0, Path+" requires a client on loopback, or a token")
		return
	case r.Method == http.MethodPost:
		if kind := r.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
			i.Fail(w, http.StatusUnsupportedMediaType, 0, "Content-Type must be application/json") // browsers do not send this type to another site without a preflight request
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		f, parsed := Parse(body)
		if err := errors.Join(err, parsed); err != nil {
			i.Fail(w, http.StatusBadRequest, 0, err.Error())
			return
		}
		i.Set(f)
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", "GET, POST")
		i.Fail(w, http.StatusMethodNotAllowed, 0, "the method must be GET or POST")
		return
	}
	b, _ := json.Marshal(i.Faults()) // structs of numbers have no encoding errors
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // a write error means that the client has closed the connection
}

// awaitDelay waits for d. awaitDelay reports false if the client leaves earlier.
func awaitDelay(client context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-client.Done():
		return false
	}
}

// errCut is the error of a write to a connection that a fault has cut.
var errCut = errors.New("fault injected: the connection is cut")

// writer writes an answer and injects faults.
type writer struct {
	http.ResponseWriter
	client                        context.Context
	chat, stream, wrongUsage, cut bool
	opened                        bool // the first event of a chat, which has only the role, was written
	events, cutAfter, stallAfter  int  // -1: never
	stall                         time.Duration
}

// Unwrap returns the wrapped ResponseWriter, for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader removes Content-Length if a fault changes the length.
func (w *writer) WriteHeader(status int) {
	w.stream = strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream")
	if w.wrongUsage {
		w.Header().Del("Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a whole document, or one or more whole events.
func (w *writer) Write(b []byte) (int, error) {
	size := len(b)
	if w.wrongUsage {
		b = bytes.ReplaceAll(b, []byte(`"completion_tokens":`), []byte(`"completion_tokens":1`)) // adds a digit to the number
	}
	if !w.stream && w.cutAfter >= 0 {
		return w.breakOff(b[:len(b)/2])
	}
	for w.stream && len(b) > 0 && !w.cut {
		if w.events == w.stallAfter && !w.waiting() {
			w.stallAfter = -1
			w.flush()
			awaitDelay(w.client, w.stall)
			// The write deadline was set before the pause, so it is extended.
			_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(30 * time.Second))
		}
		if w.events == w.cutAfter && !w.waiting() {
			return w.breakOff(nil)
		}
		event := b
		if at := bytes.Index(b, []byte("\n\n")); at >= 0 {
			event = b[:at+2]
		}
		b = b[len(event):]
		if _, err := w.ResponseWriter.Write(event); err != nil {
			return 0, err
		}
		if w.waiting() {
			w.opened = true
		} else {
			w.events++
		}
	}
	if w.cut {
		return 0, errCut
	}
	if len(b) > 0 {
		if _, err := w.ResponseWriter.Write(b); err != nil {
			return 0, err
		}
	}
	return size, nil
}

// waiting reports whether the next event of a stream is the first event of a chat, which has no token.
func (w *writer) waiting() bool { return w.chat && !w.opened }

// breakOff writes the part before the cut, and cuts the connection.
func (w *writer) breakOff(b []byte) (int, error) {
	w.cut = true
	if _, err := w.ResponseWriter.Write(b); err != nil {
		return 0, err
	}
	w.flush()
	return 0, errCut
}

func (w *writer) flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }
