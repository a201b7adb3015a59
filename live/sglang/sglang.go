// Package sglang serves a simulated engine as SGLang's own server serves a real one: over HTTP,
// with its native API, OpenAI's and SGLang's metrics, by itself, without etcd and NATS.
//
// Read sglang.go, handlers.go, generate.go.
package sglang

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

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
	Version string // of SGLang, as /server_info tells it

	Tokenize func(text string) []uint32 // nil is openai.Tokenize
	Log      *slog.Logger               // nil: none

	MaxConnections int // more wait to be accepted; 0: as many as a frontend has
}

// Server is one worker.
type Server struct {
	options Options
	engine  *mocker.Engine
	front   *frontend.Server
	served  route.Served
	metrics *telemetry.Metrics
}

// Start starts an engine and makes a server for it that listens nowhere yet.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{options: o, metrics: telemetry.NewMetrics()}
	if s.options.Log == nil {
		s.options.Log = slog.New(slog.DiscardHandler)
	}
	if s.options.Tokenize == nil {
		s.options.Tokenize = openai.Tokenize
	}
	a := &o.Engine.Engine
	o.Engine.Watch = &meter{since: time.Now(), metrics: s.metrics.SGLang(telemetry.SGLangConfig{Model: o.Engine.Model, BlockTokens: a.BlockTokens, Blocks: a.Blocks})}
	var err error
	if s.engine, err = mocker.New(o.Engine); err != nil {
		return nil, err
	}
	if _, err = s.engine.Start(ctx, 0); err != nil {
		return nil, err
	}
	s.served = route.Served{
		Name: o.Engine.Model, ContextLength: o.Engine.ContextLength, Since: time.Now(), Instances: 1,
		Target: engine.NewAdapter(s.engine, engine.AdapterOptions{Log: s.options.Log}),
	}
	s.front, err = frontend.New(frontend.Config{
		Models: s, Log: s.options.Log, MaxConnections: o.MaxConnections, Tokenize: s.options.Tokenize, Wrap: s.newHandler,
	})
	if err != nil {
		return nil, errors.Join(err, s.engine.Cleanup(ctx))
	}
	return s, nil
}

// Serve answers what comes in at l until Shutdown, and returns nil then.
func (s *Server) Serve(l net.Listener) error { return s.front.Serve(l) }

// Shutdown takes no more requests, waits for those under way, until ctx ends, and ends the engine.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.front.Shutdown(ctx)
	return errors.Join(err, s.engine.Cleanup(context.WithoutCancel(ctx)))
}

// Models lists the one model, which never changes.
func (s *Server) Models() ([]route.Served, <-chan struct{}) { return []route.Served{s.served}, nil }

// Find returns it for whatever name: SGLang's server asks for none.
func (s *Server) Find(string) (route.Served, bool) { return s.served, true }

// meter counts what the engine does. It is a mocker.Watcher.
type meter struct {
	metrics        *telemetry.SGLang
	since          time.Time // of the latest pass
	prompt, cached int       // of requests let in since then
}

// Passed counts a pass.
func (m *meter) Passed(p *mocker.PassFacts) {
	now := time.Now()
	m.metrics.Passed(&telemetry.SGLangPass{
		Running: p.Running, Queued: p.Waiting, Held: p.Held, Blocks: p.Blocks, Prompt: m.prompt, Cached: m.cached,
		Generated: p.Generated, Retracted: p.Preempted, Took: now.Sub(m.since).Seconds(), Firsts: p.Firsts, Gaps: p.Gaps,
	})
	m.since, m.prompt, m.cached = now, 0, 0
}

// Admitted counts a request that was let in.
func (m *meter) Admitted(prompt, cached int) { m.prompt, m.cached = m.prompt+prompt, m.cached+cached }

// Prefilled counts nothing.
func (m *meter) Prefilled(int, int) {}

// Over counts a request that is over.
func (m *meter) Over(r *mocker.RequestFacts) {
	m.metrics.Over(&telemetry.SGLangRequest{
		Prompt: r.PromptTokens, Cached: r.CachedTokens, Generated: r.Generated,
		Queued: r.Queued, Decode: r.Decode, Total: r.Total, Aborted: r.Reason == engine.FinishCancelled,
	})
}
