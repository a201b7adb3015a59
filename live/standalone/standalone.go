// Package standalone serves a mocker by itself, without etcd and NATS, behind the frontend's HTTP. vLLM's and SGLang's
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
	"time"

	"github.com/replay-llm/replay/internal/json"
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

	Tokenize func(text string) []uint32 // nil is openai.Tokenize
	Log      *slog.Logger               // nil: none
}

// Server is one worker.
type Server struct {
	Options Options
	Metrics *telemetry.Metrics
	Engine  *mocker.Engine
	Served  route.Served // the model

	front *frontend.Server
}

// New returns a server without an engine.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Tokenize == nil {
		o.Tokenize = openai.Tokenize
	}
	return &Server{Options: o, Metrics: telemetry.NewMetrics()}
}

// Start starts the engine, which tells watch what it does. Requests for models are answered by what handler returns, which
// is given OpenAI's paths.
func (s *Server) Start(ctx context.Context, watch mocker.Watcher, models frontend.Models, handler func(own http.Handler) http.Handler) (err error) {
	o := &s.Options
	o.Engine.Watch = watch
	if s.Engine, err = mocker.New(o.Engine); err != nil {
		return err
	}
	if _, err = s.Engine.Start(ctx, 0); err != nil {
		return err
	}
	s.Served = route.Served{
		Name: o.Engine.Model, ContextLength: o.Engine.ContextLength, Since: time.Now(), Instances: 1,
		Target: engine.NewAdapter(s.Engine, engine.AdapterOptions{Log: o.Log}),
	}
	wrap := handler
	if o.Ask != nil {
		wrap = func(own http.Handler) http.Handler { return o.Ask(handler(own)) }
	}
	if s.front, err = frontend.New(frontend.Config{Models: models, Log: o.Log, Tokenize: o.Tokenize, Wrap: wrap}); err != nil {
		return errors.Join(err, s.Engine.Cleanup(ctx))
	}
	return nil
}

// Serve answers what comes in at l until Shutdown, and returns nil then.
func (s *Server) Serve(l net.Listener) error { return s.front.Serve(l) }

// Shutdown takes no more requests, waits for those under way, until ctx ends, and ends the engine.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.front.Shutdown(ctx)
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
