// Package frontend serves models over HTTP with the endpoints of the OpenAI API: completions, chat completions and
// the list of models. The package also serves health and metrics.
//
// The frontend has no model's tokenizer: a prompt of token ids is used unchanged, and a text is split by
// openai.Tokenize.
//
// The models are those of a route.Catalog. A client that leaves stops its request, and the cancellation is counted.
//
// Package openai defines requests and answers. Read server.go, answer.go, stream.go.
package frontend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/semaphore"

	"github.com/replay-llm/replay/internal/listen"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/openai"
	"github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/live/telemetry"
)

// Models are the served models. route.Catalog implements Models.
type Models interface {
	// Models lists the served models by name. The channel is closed when the list changes.
	Models() ([]route.Served, <-chan struct{})
	// Find returns the model with a name, and whether it is, or was, served. The name "" finds the only model.
	Find(name string) (route.Served, bool)
}

// Config configures a Server. Every field but Models is optional: its zero value means the default.
type Config struct {
	Models  Models              // Models is required
	Metrics *telemetry.Requests // nil: requests are not counted
	Expose  http.Handler        // serves /metrics; nil: no /metrics
	Tracing *telemetry.Tracing  // nil: spans are not exported

	// Wrap returns the handler that serves all requests; own is the handler of the server. nil: own.
	Wrap func(own http.Handler) http.Handler

	// Tokenize splits the text of prompts, in concurrent calls; nil: openai.Tokenize.
	Tokenize func(text string) []uint32

	MaxInFlight  int           // requests that are answered at once; 0: no limit
	MaxQueued    int           // requests that wait for a slot; more get 429. 0: requests do not wait
	QueueTimeout time.Duration // time that a request waits for a slot before it gets 503; default 30 s

	MaxBody        int           // bytes of the body of one request; default 8 MiB
	MaxPending     int           // bytes of bodies of all requests in flight; default 64 MiB
	MaxAnswer      int           // bytes of one answer that is not streamed; default 64 MiB
	MaxAnswers     int           // bytes of all answers that are not streamed; default 256 MiB
	MaxHeader      int           // bytes of the headers of one request; default 64 KiB
	MaxConnections int           // open connections; more wait to be accepted; default 16384
	ReadHeader     time.Duration // time for a client to send its headers; default 10 s
	ReadBody       time.Duration // time for a client to send its body; default 30 s
	Write          time.Duration // time for a client to read one write of its answer; default 30 s
	Idle           time.Duration // time that a connection may be idle between requests; default 60 s

	SlowReader func(model string) // counts a client that was disconnected because it did not read its answer; nil: not counted

	Now   func() time.Time // creation time of answers; default time.Now
	Stale func() time.Time // time since when Models may be out of date, zero if it is up to date; nil: always up to date
	Log   *slog.Logger     // nil: no log
}

// Server is an HTTP server for models.
type Server struct {
	config Config
	http   *http.Server
	// Limits in bytes: of the bodies of requests in flight, and of answers that are not streamed.
	bodies, answers *semaphore.Weighted

	admission *admission

	// Buffers of events. Few are in use at once, so they stay in the caches of a processor.
	rooms sync.Pool

	active atomic.Int64
	ending context.Context // ends when requests are killed
	kill   context.CancelFunc
}

// New returns a server that does not listen yet.
func New(c Config) (*Server, error) {
	if c.Models == nil {
		return nil, errors.New("frontend: no models, must be a source of them")
	}
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	s := &Server{config: c, admission: newAdmission(&c)}
	s.rooms.New = func() any { b := make([]byte, listen.ChunkRoom, 1<<10); return &b }
	s.ending, s.kill = context.WithCancel(context.Background())
	s.bodies, s.answers = semaphore.NewWeighted(int64(c.MaxPending)), semaphore.NewWeighted(int64(c.MaxAnswers))
	handler := s.Handler()
	if c.Wrap != nil {
		handler = c.Wrap(handler)
	}
	s.http = &http.Server{
		Handler: handler, ReadHeaderTimeout: c.ReadHeader, IdleTimeout: c.Idle, WriteTimeout: c.Write,
		MaxHeaderBytes: c.MaxHeader,
		ErrorLog:       slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// setDefaults checks the limits and sets the defaults.
func (c *Config) setDefaults() error {
	if least := min(c.MaxBody, c.MaxPending, c.MaxAnswer, c.MaxAnswers, c.MaxHeader, c.MaxConnections, c.MaxInFlight, c.MaxQueued); least < 0 {
		return fmt.Errorf("frontend: a limit of %d, must be at least 1, or 0 for the default", least)
	}
	c.MaxBody, c.MaxPending = cmp.Or(c.MaxBody, 8<<20), cmp.Or(c.MaxPending, 64<<20)
	c.MaxAnswer, c.MaxAnswers = cmp.Or(c.MaxAnswer, 64<<20), cmp.Or(c.MaxAnswers, 256<<20)
	c.MaxHeader, c.MaxConnections = cmp.Or(c.MaxHeader, 64<<10), cmp.Or(c.MaxConnections, 16384)
	c.ReadHeader, c.ReadBody = cmp.Or(max(c.ReadHeader, 0), 10*time.Second), cmp.Or(max(c.ReadBody, 0), 30*time.Second)
	c.Write, c.Idle = cmp.Or(max(c.Write, 0), 30*time.Second), cmp.Or(max(c.Idle, 0), time.Minute)
	c.QueueTimeout = cmp.Or(max(c.QueueTimeout, 0), 30*time.Second)
	if c.MaxQueued > 0 && c.MaxInFlight == 0 {
		return fmt.Errorf("frontend: MaxQueued is %d, requires MaxInFlight", c.MaxQueued)
	}
	if c.MaxPending < c.MaxBody {
		return fmt.Errorf("frontend: MaxPending is %d, must be at least MaxBody, %d", c.MaxPending, c.MaxBody)
	}
	if c.SlowReader == nil {
		c.SlowReader = func(string) {}
	}
	if c.Metrics == nil {
		c.Metrics = telemetry.NewMetrics().Requests()
	}
	if c.Tracing == nil {
		c.Tracing = telemetry.New(nil, "")
	}
	if c.Tokenize == nil {
		c.Tokenize = openai.Tokenize
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Handler returns the handler of all paths.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/completions", s.onlyMethod(http.MethodPost, s.answerHandler(openai.Completions)))
	mux.HandleFunc("/v1/chat/completions", s.onlyMethod(http.MethodPost, s.answerHandler(openai.Chat)))
	mux.HandleFunc("/v1/models", s.onlyMethod(http.MethodGet, s.serveModels))
	mux.HandleFunc("/v1/models/{id...}", s.onlyMethod(http.MethodGet, s.serveModel)) // names of models contain slashes
	mux.HandleFunc("/health", s.onlyMethod(http.MethodGet, s.serveHealth))
	mux.HandleFunc("/live", s.onlyMethod(http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
		s.writeJSON(w, http.StatusOK, map[string]string{"status": "live"})
	}))
	if s.config.Expose != nil {
		mux.Handle("/metrics", s.onlyMethod(http.MethodGet, s.config.Expose.ServeHTTP))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.writeError(w, &openai.Error{Status: http.StatusNotFound, Message: fmt.Sprintf("%.100q: no such path", r.URL.Path)})
	})
	return mux
}

// onlyMethod rejects all methods but one. GET accepts HEAD too.
func (s *Server) onlyMethod(method string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method && (method != http.MethodGet || r.Method != http.MethodHead) {
			w.Header().Set("Allow", method)
			s.writeError(w, &openai.Error{Status: http.StatusMethodNotAllowed, Message: fmt.Sprintf("%.20s: must be %s", r.Method, method)})
			return
		}
		if method == http.MethodGet {
			r.Body = http.MaxBytesReader(w, r.Body, 0)
		}
		next(w, r)
	}
}

// Serve accepts connections at l until Shutdown, and returns nil after it.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(listen.StrictFraming(s.http, netutil.LimitListener(l, s.config.MaxConnections), s.config.MaxHeader))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// farewell is the time for clients to receive the error of their killed requests.
const farewell = 2 * time.Second

// Shutdown accepts no more requests and waits for the requests in flight. If ctx ends first, Shutdown kills the
// requests in flight, and their clients receive an error.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err == nil {
		return nil
	}
	n := s.active.Load()
	s.kill()
	// The clients of killed requests receive the error within this time.
	last, release := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer release()
	_ = s.http.Shutdown(last)
	return errors.Join(fmt.Errorf("frontend: %d requests in flight: %w", n, err), s.http.Close())
}

// Close kills all requests and closes all connections at once.
func (s *Server) Close() error {
	s.kill()
	return s.http.Close()
}

// beginRequest counts a request as active, and kills it when the server ends. The caller calls end after the request.
func (s *Server) beginRequest(rc cancel.Context) (end func()) {
	s.active.Add(1)
	forget := context.AfterFunc(s.ending, rc.Kill)
	return func() {
		forget()
		s.active.Add(-1)
	}
}

// listedModel is a model in the answer of /v1/models.
type listedModel struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Created  int64  `json:"created"`
	Owner    string `json:"owned_by"`
	Context  int    `json:"context_window,omitempty"`
	MaxModel int    `json:"max_model_len,omitempty"` // equals context_window: the name in vLLM's server
}

func listModel(m *route.Served) listedModel {
	return listedModel{m.Name, "model", m.Since.Unix(), "replay", m.ContextLength, m.ContextLength}
}

func (s *Server) serveModels(w http.ResponseWriter, _ *http.Request) {
	list := struct {
		Object string        `json:"object"`
		Data   []listedModel `json:"data"`
	}{"list", []listedModel{}}
	served, _ := s.config.Models.Models()
	for i := range served {
		list.Data = append(list.Data, listModel(&served[i]))
	}
	s.writeJSON(w, http.StatusOK, list)
}

// serveModel answers with the served model of the path.
func (s *Server) serveModel(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("id")
	served, _ := s.config.Models.Models()
	for i := range served {
		if served[i].Name == name {
			s.writeJSON(w, http.StatusOK, listModel(&served[i]))
			return
		}
	}
	s.writeError(w, openai.UnknownModel(name, s.modelNames()))
}

// serveHealth answers that the frontend is healthy if some model has an instance.
func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		Name      string `json:"name"`
		Instances int    `json:"instances"`
	}
	report := struct {
		Status string  `json:"status"`
		Models []model `json:"models"`
		// Stale is the time since discovery was last up to date, in seconds.
		Stale float64 `json:"discovery_stale_seconds,omitempty"`
	}{"unhealthy", []model{}, s.config.staleFor().Seconds()}
	status := http.StatusServiceUnavailable
	served, _ := s.config.Models.Models()
	for _, m := range served {
		report.Models = append(report.Models, model{m.Name, m.Instances})
		if m.Instances > 0 {
			report.Status, status = "healthy", http.StatusOK
		}
	}
	s.writeJSON(w, status, report)
}

// staleFor returns how long discovery has been out of date, 0 if it is up to date.
func (c *Config) staleFor() time.Duration {
	if c.Stale != nil {
		if since := c.Stale(); !since.IsZero() {
			return max(time.Since(since), time.Millisecond)
		}
	}
	return 0
}

// readBody reads a body within the limits of time and bytes. release returns the bytes to the limit.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	most := int64(s.config.MaxBody)
	size := r.ContentLength
	if size > most {
		return nil, nil, tooLarge(most)
	}
	if size < 0 {
		size = most // the length is unknown
	}
	if !s.bodies.TryAcquire(size) {
		return nil, nil, &openai.Error{Status: http.StatusServiceUnavailable, Message: "too many bytes of requests are in flight", RetryAfter: 1}
	}
	release = func() { s.bodies.Release(size) }
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.config.ReadBody))
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err == nil {
		// The deadline is for the body only. If the deadline passed later, the client would seem to have left.
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
		return nil, nil, &openai.Error{Status: http.StatusRequestTimeout, Message: fmt.Sprintf("body: not whole after %v", s.config.ReadBody)}
	}
	return nil, nil, &openai.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("body: %v", err)}
}

func tooLarge(most int64) error {
	return &openai.Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("body: must be at most %d bytes", most)}
}
