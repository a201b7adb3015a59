// Package sglang serves a simulated engine as SGLang's own server serves a real one: over HTTP,
// with its native API, OpenAI's and SGLang's metrics, alone, without etcd and NATS.
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

// Server is one worker.
type Server struct{ *standalone.Server }

// Start starts an engine and makes a server for it that listens nowhere yet.
func Start(ctx context.Context, o standalone.Options) (*Server, error) {
	s := &Server{standalone.New(o)}
	a := &o.Engine.Engine
	metrics := s.Metrics.SGLang(telemetry.SGLangConfig{Model: o.Engine.Model, BlockTokens: a.BlockTokens, Blocks: a.Blocks})
	s.Rejected = func(string) { metrics.Rejected() }
	return s, s.Server.Start(ctx, meter{metrics}, s, s.newHandler)
}

// Models lists the one model, which never changes.
func (s *Server) Models() ([]route.Served, <-chan struct{}) { return []route.Served{s.Served}, nil }

// Find returns it for whatever name: SGLang's server asks for none.
func (s *Server) Find(string) (route.Served, bool) { return s.Served, true }

// meter counts what the engine does. It is a mocker.Watcher.
type meter struct{ *telemetry.SGLang }

// Over counts a request that is over.
func (m meter) Over(r *mocker.RequestFacts) {
	m.SGLang.Over(&r.Request, r.Reason == engine.FinishCancelled)
}
