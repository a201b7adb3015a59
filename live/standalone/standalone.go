// Package standalone serves a mocker without etcd and NATS, with the HTTP server of the frontend. The packages vllm
// and sglang build on this package.
package standalone

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/internal/httpfault"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/vllmpaths"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/frontend"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/live/openai"
	"github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/live/telemetry"
)

// Options configure a Server.
type Options struct {
	Engine  mocker.Options
	Version string // version of the server that is simulated

	// Ask adds authentication to all paths; nil: none.
	Ask func(http.Handler) http.Handler

	// Proven reports whether every client is authenticated. An authenticated client may replace Faults at
	// httpfault.Path, like a client on loopback.
	Proven  bool
	Faults  *httpfault.Faults // nil means no faults
	Aliases []string          // additional names of the model
	APIKeys []string          // keys for the header Authorization: Bearer below /v1; none: no key is required

	Tokenize func(text string) []uint32 // nil: openai.Tokenize
	Log      *slog.Logger               // nil means no log
}

// Server serves one engine.
type Server struct {
	Options Options
	Metrics *telemetry.Metrics
	Engine  *mocker.Engine
	Served  route.Served // the served model
	// Rejected counts a request that a queue limit rejected.
	Rejected func(reason string)

	Front   *frontend.Server
	Sleep   vllmpaths.Sleep
	faults  httpfault.Injector
	crashed atomic.Bool
}

// New returns a server. Start starts its engine.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Tokenize == nil {
		o.Tokenize = openai.Tokenize
	}
	return &Server{Options: o, Metrics: telemetry.NewMetrics(), Rejected: func(string) {}}
}

// Start starts the engine, which reports its events to watch. handler returns the handler of all paths, and receives
// the handler of OpenAI's paths.
func (s *Server) Start(ctx context.Context, watch mocker.Watcher, models frontend.Models, handler func(own http.Handler) http.Handler) (err error) {
	o := &s.Options
	o.Engine.Watch = watch
	s.openFaults()
	if s.Engine, err = mocker.New(o.Engine); err != nil {
		return err
	}
	if _, err = s.Engine.Start(ctx, 0); err != nil {
		return err
	}
	s.Served = route.Served{
		Name: o.Engine.Model, ContextLength: o.Engine.ContextLength, Since: time.Now(), Instances: 1,
		Target: limited{engine.NewAdapter(s.Engine, engine.AdapterOptions{Log: o.Log}), &httpfault.Queue[*engine.Group]{Injector: &s.faults, Rejected: s.Rejected}, &s.Sleep},
	}
	wrap := func(own http.Handler) http.Handler {
		all := s.requireKey(s.faults.Wrap(handler(own)))
		if o.Ask != nil {
			all = o.Ask(all)
		}
		return all
	}
	if s.Front, err = frontend.New(frontend.Config{Models: models, Log: o.Log, Tokenize: o.Tokenize, Wrap: wrap, SlowReader: s.Metrics.SlowReaders()}); err != nil {
		return errors.Join(err, s.Engine.Cleanup(ctx))
	}
	return nil
}

// ErrCrashed is the error of a server that a fault has stopped.
var ErrCrashed = errors.New("crashed: crash_after_requests of the faults")

// Serve serves connections at l. Serve returns nil after Shutdown.
func (s *Server) Serve(l net.Listener) error {
	err := s.Front.Serve(l)
	if s.crashed.Load() {
		return ErrCrashed
	}
	return err
}

// Shutdown stops accepting requests and waits for the requests in flight until ctx ends. Then Shutdown stops the
// engine.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.Front.Shutdown(ctx)
	return errors.Join(err, s.Engine.Cleanup(context.WithoutCancel(ctx)))
}

// ReadBody returns the body of a request. Errors are *openai.Error.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	const most = 8 << 20
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		return nil, &openai.Error{Status: http.StatusRequestEntityTooLarge, Message: "body: must be at most 8388608 bytes, all of them"}
	}
	return body, nil
}

// WriteJSON writes a value as a JSON response.
func WriteJSON(w http.ResponseWriter, status int, answer any) {
	b, err := json.MarshalUnescaped(answer)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	WriteBytes(w, status, b)
}

// WriteBytes writes a JSON document as a response.
func WriteBytes(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client may have disconnected
}
