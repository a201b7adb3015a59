// Package vllm serves a simulated engine like vLLM's server: over HTTP, with OpenAI's API and vLLM's metrics. The
// server requires neither etcd nor NATS. Gateways and endpoint pickers treat the server as vLLM.
//
// Read vllm.go, then handlers.go.
package vllm

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/replay-llm/replay/internal/vllmpaths"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/live/standalone"
	"github.com/replay-llm/replay/live/telemetry"
)

// Options configure a Server.
type Options struct {
	standalone.Options
	MaxAdapters int // reported maximum number of adapters in use; 0: no adapters
	// PlausibleTools generates tool calls, and JSON that matches the schema of a request.
	PlausibleTools bool
	Transfer       *vllmpaths.Transfer // transfer of KV blocks; nil: none
	DevMode        bool                // serves /sleep, /wake_up and /is_sleeping of vLLM's development mode
}

// Server serves one engine.
type Server struct {
	*standalone.Server
	requests *telemetry.HTTP
	load     atomic.Int64 // requests in flight
	id       string
	adapters *vllmpaths.Adapters
	transfer *vllmpaths.Transfer
	plain    bool // requests with tools are rejected
	dev      bool // value of Options.DevMode
}

// Start starts an engine and returns a server for it. The server does not listen yet.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{Server: standalone.New(o.Options), id: strings.ReplaceAll(cancel.NewID(), "-", "")[:16], plain: !o.PlausibleTools, dev: o.DevMode, transfer: o.Transfer}
	s.adapters = vllmpaths.NewAdapters(append([]string{o.Engine.Model}, o.Aliases...), o.Engine.Adapters)
	if o.MaxAdapters > 0 {
		s.Options.Engine.Adapters, s.Options.Engine.Adapted = nil, s.adapters.Has
	}
	if s.transfer != nil {
		s.transfer.BlockTokens = o.Engine.Engine.BlockTokens
	}
	s.requests = s.Metrics.HTTP()
	a := &o.Engine.Engine
	metrics := s.Metrics.VLLM(telemetry.VLLMConfig{
		Model: o.Engine.Model, BlockTokens: a.BlockTokens, Blocks: a.Blocks, PrefixCaching: a.PrefixCaching, Longest: o.Engine.ContextLength,
		Utilization: 0.92, MaxAdapters: o.MaxAdapters, // vLLM's default share of the GPU's memory
	})
	s.Rejected = metrics.Rejected
	return s, s.Server.Start(ctx, &meter{metrics, map[*engine.Group]tally{}}, s, s.newHandler)
}

// Source returns the sockets of the KV events; the zero value if there are none.
func (s *Server) Source() kvevents.Source { return s.Engine.Source() }

// Models returns the model and its adapters. The channel is nil, so changes are not reported.
func (s *Server) Models() ([]route.Served, <-chan struct{}) {
	all := []route.Served{s.Served}
	for _, name := range slices.Concat(s.Options.Aliases, s.adapters.Names()) {
		adapted := s.Served
		adapted.Name = name
		all = append(all, adapted)
	}
	return all, nil
}

// Find returns the model with a name. "" is the base model.
func (s *Server) Find(name string) (route.Served, bool) {
	found := s.Served
	if name != "" && !slices.Contains(s.Options.Aliases, name) {
		found.Name = name
	}
	return found, found.Name == s.Served.Name || s.adapters.Has(name)
}

// meter counts the events of the engine. meter implements mocker.Watcher.
type meter struct {
	*telemetry.VLLM
	groups map[*engine.Group]tally
}

// tally counts the finished answers to a prompt.
type tally struct{ over, longest int }

// Over counts a finished request.
func (m *meter) Over(r *mocker.RequestFacts) {
	reason := "stop"
	switch r.Reason {
	case engine.FinishLength:
		reason = "length"
	case engine.FinishCancelled:
		reason = "abort"
	}
	m.VLLM.Over(&r.Request, reason)
	if r.Group == nil {
		m.Answered(1, r.Generated)
		return
	}
	t := m.groups[r.Group]
	t.over, t.longest = t.over+1, max(t.longest, r.Generated)
	m.groups[r.Group] = t
	if t.over == r.Group.Size {
		delete(m.groups, r.Group)
		m.Answered(t.over, t.longest)
	}
}
