// Package sglang serves a simulated engine like SGLang's server: over HTTP, with its native API, OpenAI's API and
// SGLang's metrics. The server requires neither etcd nor NATS.
//
// Read sglang.go, handlers.go, generate.go.
package sglang

import (
	"context"

	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/live/standalone"
	"github.com/replay-llm/replay/live/telemetry"
)

// Server serves one engine.
type Server struct{ *standalone.Server }

// Start starts an engine and returns a server for it. The server does not listen yet.
func Start(ctx context.Context, o standalone.Options) (*Server, error) {
	s := &Server{standalone.New(o)}
	a := &o.Engine.Engine
	metrics := s.Metrics.SGLang(telemetry.SGLangConfig{Model: o.Engine.Model, BlockTokens: a.BlockTokens, Blocks: a.Blocks})
	s.Rejected = func(string) { metrics.Rejected() }
	return s, s.Server.Start(ctx, meter{metrics}, s, s.newHandler)
}

// Models returns the only model. The channel is nil, since the model never changes.
func (s *Server) Models() ([]route.Served, <-chan struct{}) { return []route.Served{s.Served}, nil }

// Find returns the only model for every name, since SGLang's server ignores the name.
func (s *Server) Find(string) (route.Served, bool) { return s.Served, true }

// meter counts the events of the engine. meter implements mocker.Watcher.
type meter struct{ *telemetry.SGLang }

// Over counts a finished request.
func (m meter) Over(r *mocker.RequestFacts) {
	m.SGLang.Over(&r.Request, r.Reason == engine.FinishCancelled)
}
