// Package vllm serves a simulated engine as vLLM's own server serves a real one: over HTTP,
// with OpenAI's API and vLLM's metrics, by itself, without etcd and NATS. A gateway
// or an endpoint picker takes it for vLLM.
//
// Read vllm.go, then handlers.go.
package vllm

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/frontend"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/live/openai"
	"github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/live/telemetry"
)

// Options are what a Server serves.
type Options struct {
	Engine  mocker.Options
	Version string // of vLLM, as /version tells it
	Root    string // told as the model's root; "" is its name

	MaxAdapters int // told as the adapters that may be in use at once; 0: there are none

	Tokenize func(text string) []uint32 // nil is openai.Tokenize
	Log      *slog.Logger               // nil: none

	MaxConnections int // more wait to be accepted; 0: as many as a frontend has
}

// Server is one worker.
type Server struct {
	options  Options
	engine   *mocker.Engine
	front    *frontend.Server
	metrics  *telemetry.Metrics
	requests *telemetry.HTTP
	load     atomic.Int64 // requests that are being answered
	since    time.Time
	id       string
}

// Start starts an engine and makes a server for it that listens nowhere yet.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{options: o, metrics: telemetry.NewMetrics(), since: time.Now(), id: strings.ReplaceAll(cancel.NewID(), "-", "")[:16]}
	if s.options.Log == nil {
		s.options.Log = slog.New(slog.DiscardHandler)
	}
	if s.options.Tokenize == nil {
		s.options.Tokenize = openai.Tokenize
	}
	s.options.Root = cmp.Or(o.Root, o.Engine.Model)
	s.requests = s.metrics.HTTP()
	a := &o.Engine.Engine
	o.Engine.Watch = &meter{groups: map[*engine.Group]tally{}, metrics: s.metrics.VLLM(telemetry.VLLMConfig{
		Model: o.Engine.Model, BlockTokens: a.BlockTokens, Blocks: a.Blocks, PrefixCaching: a.PrefixCaching, Longest: o.Engine.ContextLength,
		Utilization: usualShare, MaxAdapters: o.MaxAdapters,
	})}
	var err error
	if s.engine, err = mocker.New(o.Engine); err != nil {
		return nil, err
	}
	if _, err = s.engine.Start(ctx, 0); err != nil {
		return nil, err
	}
	s.front, err = frontend.New(frontend.Config{
		Models: s.models(), Log: s.options.Log, MaxConnections: o.MaxConnections, Tokenize: s.options.Tokenize, Wrap: s.newHandler,
	})
	if err != nil {
		return nil, errors.Join(err, s.engine.Cleanup(ctx))
	}
	return s, nil
}

// usualShare is the share of a GPU's memory that vLLM takes unless told otherwise.
const usualShare = 0.92

// Serve answers what comes in at l until Shutdown, and returns nil then.
func (s *Server) Serve(l net.Listener) error { return s.front.Serve(l) }

// Shutdown takes no more requests, waits for those under way, until ctx ends, and ends the engine.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.front.Shutdown(ctx)
	return errors.Join(err, s.engine.Cleanup(context.WithoutCancel(ctx)))
}

// Source returns where the worker publishes KV events; nothing, if it does not.
func (s *Server) Source() kvevents.Source { return s.engine.Source() }

// models returns what is served.
func (s *Server) models() *alone {
	return &alone{base: route.Served{
		Name: s.options.Engine.Model, ContextLength: s.options.Engine.ContextLength, Since: s.since, Instances: 1,
		Target: engine.NewAdapter(s.engine, engine.AdapterOptions{Log: s.options.Log}),
	}, adapters: s.options.Engine.Adapters}
}

// alone are the models of a server with one, and adapters of it.
type alone struct {
	base     route.Served
	adapters []string
}

// Models lists them; they never change.
func (a *alone) Models() ([]route.Served, <-chan struct{}) {
	all := []route.Served{a.base}
	for _, name := range a.adapters {
		adapted := a.base
		adapted.Name = name
		all = append(all, adapted)
	}
	return all, nil
}

// Find returns the model of that name. Requests that name none are for the base.
func (a *alone) Find(name string) (route.Served, bool) {
	found := a.base
	if name != "" {
		found.Name = name
	}
	return found, found.Name == a.base.Name || slices.Contains(a.adapters, name)
}

func (a *alone) names() []string { return append([]string{a.base.Name}, a.adapters...) }

// meter counts what the engine does. It is a mocker.Watcher.
type meter struct {
	metrics *telemetry.VLLM
	groups  map[*engine.Group]tally
}

// tally is how far the answers to a prompt are.
type tally struct{ over, longest int }

// Passed counts a pass.
func (m *meter) Passed(p *mocker.PassFacts) {
	m.metrics.Passed((*telemetry.VLLMPass)(p))
}

// Admitted counts a request that was let in.
func (m *meter) Admitted(prompt, cached int) { m.metrics.Admitted(prompt, cached) }

// Prefilled counts a request that has its first token.
func (m *meter) Prefilled(prompt, cached int) { m.metrics.Prefilled(prompt, cached) }

// Over counts a request that is over.
func (m *meter) Over(r *mocker.RequestFacts) {
	reason := "stop"
	switch r.Reason {
	case engine.FinishLength:
		reason = "length"
	case engine.FinishCancelled:
		reason = "abort"
	}
	m.metrics.Over(&telemetry.VLLMRequest{
		Prompt: r.PromptTokens, Cached: r.CachedTokens, Generated: r.Generated, Limit: r.Limit, Queued: r.Queued, Prefill: r.Prefill,
		Decode: r.Decode, Total: r.Total, Preemptions: r.Preemptions, Reason: reason,
	})
	if r.Group == nil {
		m.metrics.Answered(1, r.Generated)
		return
	}
	t := m.groups[r.Group]
	t.over, t.longest = t.over+1, max(t.longest, r.Generated)
	m.groups[r.Group] = t
	if t.over == r.Group.Size {
		delete(m.groups, r.Group)
		m.metrics.Answered(t.over, t.longest)
	}
}
