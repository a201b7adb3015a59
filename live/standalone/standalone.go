// Package standalone serves a mocker alone, without etcd and NATS, behind the frontend's HTTP. vLLM's and SGLang's
// servers are made of it.
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

// Options are what a Server serves.
type Options struct {
	Engine  mocker.Options
	Version string // of the program that the server answers as

	// Ask puts the question for credentials before all paths; nil: none.
	Ask func(http.Handler) http.Handler

	// Proven reports whether every client has proven itself. Such a client may replace Faults at httpfault.Path, as clients on loopback may.
	Proven  bool
	Faults  *httpfault.Faults // nil: none
	Aliases []string          // more names of the model
	APIKeys []string          // one of which requests below /v1 have as Authorization: Bearer; none: all are answered

	Tokenize func(text string) []uint32 // nil is openai.Tokenize
	Log      *slog.Logger               // nil: none
}

// Server is one worker.
type Server struct {
	Options Options
	Metrics *telemetry.Metrics
	Engine  *mocker.Engine
	Served  route.Served // the model
	// Rejected counts a request that a queue limit rejected.
	Rejected func(reason string)

	Front   *frontend.Server
	Sleep   vllmpaths.Sleep
	faults  httpfault.Injector
	crashed atomic.Bool
}

// New returns a server without an engine.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Tokenize == nil {
		o.Tokenize = openai.Tokenize
	}
	return &Server{Options: o, Metrics: telemetry.NewMetrics(), Rejected: func(string) {}}
}

// Start starts the engine, which reports its passes to watch. Requests for models are answered by what handler returns,
// which is given OpenAI's paths.
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
		all := s.askKey(s.faults.Wrap(handler(own)))
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

// ErrCrashed is the error of a server that a fault has ended.
var ErrCrashed = errors.New("crashed: crash_after_requests of the faults")

// Serve serves connections at l until Shutdown, and returns nil then.
func (s *Server) Serve(l net.Listener) error {
	err := s.Front.Serve(l)
	if s.crashed.Load() {
		return ErrCrashed
	}
	return err
}

// Shutdown takes no more requests, waits for those in flight, until ctx ends, and ends the engine.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.Front.Shutdown(ctx)
	return errors.Join(err, s.Engine.Cleanup(context.WithoutCancel(ctx)))
}

// ReadBody returns the body of a request for one of the server's own paths. Its errors are of openai.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	const most = 8 << 20
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		return nil, &openai.Error{Status: http.StatusRequestEntityTooLarge, Message: "body: must be at most 8388608 bytes, all of them"}
	}
	return body, nil
}

// WriteJSON answers with JSON.
func WriteJSON(w http.ResponseWriter, status int, answer any) {
	b, err := json.MarshalUnescaped(answer)
	if err != nil {
		panic(err) // texts and numbers cannot fail
	}
	WriteBytes(w, status, b)
}

// WriteBytes answers with a document of JSON.
func WriteBytes(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client may have left
}
