// Package mocker is a served engine without a model: a simulated scheduler on a live clock that implements package
// engine (docs/runtime.md).
//
// Requests are scheduled, batched, cached and preempted by the rules of the real engine. Passes take the simulated
// time. Tokens are drawn from the prompt and the seed, or without a seed from the prompt and the request's id.
//
// Read mocker.go, generate.go, stream.go and ranks.go.
package mocker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/internal/listen"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/live/rendezvous"
	"github.com/replay-llm/replay/live/telemetry"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/online"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// DefaultModel is the default model name of a mocker.
const DefaultModel = "mocker-model"

// Options configure a mocker.
type Options struct {
	Model         string          // the default is DefaultModel
	ContextLength int             // tokens of the longest prompt; default 8192
	Engine        engineargs.Args // the zero value is engineargs.Default
	Mode          engine.Mode     // the default is engine.Aggregated
	// Adapters are names of LoRA adapters that requests may name as their model. The prompts of each adapter are
	// cached separately. The number of adapters in use has no effect on speed.
	Adapters []string
	Adapted  func(name string) bool // reports whether a name is an adapter; nil: only Adapters are
	Precise  bool                   // poll the clock at the end of each pass; uses one processor
	// KVEvents enables KV events for callers of KVEventSources.
	KVEvents bool
	// KVSockets, if not nil, configures the sockets for KV events and their layout. EngineConfig reports their
	// addresses. The mocker sets BlockTokens and Warn. Events in vLLM's layouts contain the tokens of blocks.
	// Default: sockets on loopback at Engine.KVEventsPort and Engine.ReplayPort, if not 0.
	KVSockets  *kvevents.TeeOptions
	Rank       int32 // index among the data-parallel ranks of its worker
	MaxWaiting int   // requests that wait to be admitted; more fail with ErrQueueFull. 0: no limit
	// Stall is the delay of a pass above which Alive reports false, default 10 s.
	Stall time.Duration
	// BootstrapHost is the host at which a prefill worker listens for decode workers. The port is
	// Engine.BootstrapPort, 0 for any port. If "", the workers do not connect, and a prefill ends only after its KV
	// cache has been transferred.
	BootstrapHost string
	Rendezvous    rendezvous.Options // timeouts of the connection between prefill and decode workers
	// Watch, if not nil, receives every pass and the end of every request.
	Watch Watcher
	// Warn, if not nil, receives failures that did not end a request.
	Warn func(string)
}

// Engine is a mocker. Engine implements engine.Engine.
type Engine struct {
	options Options
	stage   *engines.Stage
	tree    *prompt.Tree
	prompts map[sim.RequestID]prompt.NodeID // last nodes of the prompts on the core; used only by the worker's goroutine
	leaving []sim.RequestID                 // requests that left the core since the last pass
	gained  []*stream                       // streams with tokens of the latest pass; used only by the worker's goroutine
	tee     *kvevents.Tee                   // nil without sockets for KV events
	texts   *texts                          // nil if KV events have no tokens
	rooms   *rendezvous.Server              // nil if decode workers do not connect to this worker
	ids     atomic.Int32                    // the latest sim.RequestID

	life sync.Mutex // serializes Start and Cleanup
	over bool       // Cleanup was called

	mu      sync.Mutex
	worker  *online.Worker            // nil unless running
	halt    context.CancelFunc        // nil: not started
	ended   chan struct{}             // closed when the worker's loop ends
	broken  error                     // the error that ended the worker's loop, nil after a requested end
	streams map[sim.RequestID]*stream // streams of requests on the scheduler
	idle    chan struct{}             // closed when streams is empty; nil: no goroutine waits
	sink    engine.KVEventSink

	// How full the engine is: blocks held by requests after the latest pass, and the total of cached and of computed
	// prompt tokens.
	held, cached, computed int

	loop  atomic.Pointer[online.Worker] // equals worker, readable without mu
	clock *online.Clock
	facts telemetry.Pass // facts of the latest pass
}

var (
	_ engine.Engine         = (*Engine)(nil)
	_ engine.ActiveEngine   = (*Engine)(nil)
	_ engine.KVEventsEngine = (*Engine)(nil)
	_ engine.MetricsEngine  = (*Engine)(nil)
	_ engine.LiveEngine     = (*Engine)(nil)
)

// ErrQueueFull is the error of a request that exceeds MaxWaiting.
var ErrQueueFull = errors.New("the queue of the engine is full: retry later, or ask another instance")

// New returns a mocker that is not started. Arguments that cannot be simulated return an error of type
// fault.BackendInvalidArgument.
func New(o Options) (*Engine, error) {
	o.Model, o.ContextLength = cmp.Or(o.Model, DefaultModel), cmp.Or(o.ContextLength, 8192)
	o.Engine, o.Mode, o.Stall = cmp.Or(o.Engine, engineargs.Default()), cmp.Or(o.Mode, engine.Aggregated), cmp.Or(o.Stall, 10*time.Second)
	if a := &o.Engine; o.KVSockets == nil && a.KVEventsPort != 0 {
		o.KVSockets = &kvevents.TeeOptions{Events: tcpEndpoint(a.KVEventsPort)}
		if a.ReplayPort != 0 {
			o.KVSockets.Replay = tcpEndpoint(a.ReplayPort)
		}
	}
	e := &Engine{options: o, streams: make(map[sim.RequestID]*stream)}
	if err := e.prepareStage(); err != nil {
		return nil, fault.New(fault.BackendInvalidArgument, "mocker: %w", err)
	}
	return e, nil
}

// prepareStage checks the options and prepares the scheduler.
func (e *Engine) prepareStage() error {
	a := &e.options.Engine
	mode, err := engine.ParseMode(string(e.options.Mode))
	if err != nil {
		return err
	}
	e.options.Mode, a.Role = mode, mode.Role()
	pool := engines.Pool{Role: a.Role, Engine: *a, Count: 1}
	switch err := pool.CheckEngine(); {
	case a.DPSize != 1:
		return fmt.Errorf("dp_size is %d, must be 1: ranks in lockstep are not served, --data-parallel-size sets ranks of a worker", a.DPSize)
	case e.options.ContextLength < 1:
		return fmt.Errorf("context length is %d, must be at least 1", e.options.ContextLength)
	case err != nil:
		return err
	}
	e.tree, e.prompts = prompt.NewForgetful(a.BlockTokens, a.BlockTokens, prompt.Options{Hashed: true}), make(map[sim.RequestID]prompt.NodeID)
	stages, err := engines.NewStages(&engines.Topology{Pools: []engines.Pool{pool}},
		engines.Use{Tree: e.tree, Events: e.options.KVEvents || e.options.KVSockets != nil})
	if err != nil {
		return err
	}
	e.stage = stages[0]
	if s := e.options.KVSockets; s != nil && s.Layout != kvevents.OwnLayout {
		e.texts = newTexts(a.BlockTokens)
	}
	return nil
}

// Start starts the mocker. Start fails after the first call.
func (e *Engine) Start(context.Context, uint64) (engine.EngineConfig, error) {
	e.life.Lock()
	defer e.life.Unlock()
	if e.over || e.halt != nil {
		return engine.EngineConfig{}, fault.New(fault.BackendEngineShutdown, "mocker: it was started before, must be a new one")
	}
	core, err := e.stage.Core(0)
	if err == nil {
		err = e.openTee()
	}
	if err == nil {
		err = e.openRooms()
	}
	if err != nil {
		err = errors.Join(err, e.closeSockets())
		return engine.EngineConfig{}, fault.New(fault.BackendInvalidArgument, "mocker: %w", err)
	}
	ctx, halt := context.WithCancel(context.Background())
	e.clock = online.NewClock()
	w := online.NewWorker(online.WorkerConfig{
		Core: core, Clock: e.clock, Precise: e.options.Precise, Detail: true,
		Changed: e.publishEvents, Prepare: func(q *sim.Request) { e.internPrompt(core, q) },
		Output:   func(p *scheduler.Pass, _ online.Span) { e.handOut(core, p) },
		Admitted: e.noteAdmitted, Canceled: e.noteCanceled,
	})
	e.mu.Lock()
	e.worker, e.halt, e.ended = w, halt, make(chan struct{})
	e.mu.Unlock()
	e.loop.Store(w)
	go e.runWorker(ctx, w)
	return e.engineConfig(), nil
}

func (e *Engine) engineConfig() engine.EngineConfig {
	a := &e.options.Engine
	c := engine.EngineConfig{
		Model: e.options.Model, ServedModelName: e.options.Model, ContextLength: e.options.ContextLength,
		KVCacheBlockSize: a.BlockTokens, TotalKVBlocks: a.Blocks, MaxSeqs: a.MaxSeqs,
		MaxBatchedTokens: a.MaxBatchedTokens, DataParallelSize: 1,
	}
	if e.rooms != nil {
		c.BootstrapHost, c.BootstrapPort = e.options.BootstrapHost, e.rooms.Port()
		if ip := net.ParseIP(c.BootstrapHost); ip != nil && ip.IsUnspecified() {
			c.BootstrapHost = listen.RoutableAddress()
		}
	}
	if e.tee != nil {
		c.RuntimeData = map[string]any{kvevents.SourcesKey: []kvevents.Source{e.Source()}}
	}
	return c
}

// openRooms opens the address to which decode workers connect, if this is a prefill worker with a BootstrapHost.
func (e *Engine) openRooms() (err error) {
	if e.options.BootstrapHost == "" || e.options.Mode != engine.Prefill || e.rooms != nil {
		return nil
	}
	at := net.JoinHostPort(e.options.BootstrapHost, strconv.Itoa(int(e.options.Engine.BootstrapPort)))
	e.rooms, err = rendezvous.Listen(at, e.options.Rendezvous)
	return err
}

// closeSockets closes the sockets for KV events and for decode workers.
func (e *Engine) closeSockets() (err error) {
	if e.tee != nil {
		err = e.tee.Close()
	}
	if e.rooms != nil && e.options.Rank == 0 { // the other ranks share the rooms of rank 0
		e.rooms.Close()
	}
	return err
}

// runWorker runs the worker's loop. When the loop ends, runWorker ends all streams.
func (e *Engine) runWorker(ctx context.Context, w *online.Worker) {
	defer close(e.ended)
	err := w.Run(ctx)
	w.Close()
	if err != nil {
		err = fault.New(fault.BackendEngineShutdown, "mocker: %w", err)
		e.warnAbout("%v", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.worker, e.broken = nil, err
	if err == nil {
		err = fault.New(fault.BackendEngineShutdown, "mocker was shut down")
	}
	for id, s := range e.streams {
		s.endWith(err)
		e.removeStream(id)
	}
}

// removeStream removes a request from streams. e.mu is held.
func (e *Engine) removeStream(id sim.RequestID) {
	delete(e.streams, id)
	if e.texts != nil {
		e.texts.removeRequest(id)
	}
	if len(e.streams) == 0 && e.idle != nil {
		close(e.idle)
		e.idle = nil
	}
}

// Alive reports whether passes end in time.
func (e *Engine) Alive() bool {
	w := e.loop.Load()
	return w == nil || w.Overdue() < sim.Time(e.options.Stall.Milliseconds())
}

// ActiveRequests returns the number of requests on the scheduler.
func (e *Engine) ActiveRequests() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.streams)
}

// Abort removes the request from the scheduler at the end of the running pass.
func (e *Engine) Abort(rc cancel.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.worker == nil {
		return
	}
	for id, s := range e.streams { // the order is irrelevant
		// A retry on this worker has the id of its first attempt, and must not be cancelled.
		if s.rc.ID() == rc.ID() && s.rc.IsStopped() {
			e.worker.Cancel(id)
		}
	}
}

// Drain waits until no request is on the scheduler.
func (e *Engine) Drain(ctx context.Context) error {
	e.mu.Lock()
	if len(e.streams) == 0 {
		e.mu.Unlock()
		return nil
	}
	if e.idle == nil {
		e.idle = make(chan struct{})
	}
	idle := e.idle
	e.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fault.New(fault.BackendCancelled, "mocker: %d requests are left: %w", e.ActiveRequests(), ctx.Err())
	}
}

// Cleanup stops all requests, so that their streams end as cancelled, and then ends the scheduler.
func (e *Engine) Cleanup(ctx context.Context) error {
	e.life.Lock()
	defer e.life.Unlock()
	done := e.over || e.halt == nil
	e.over = true
	if done {
		return nil
	}
	e.mu.Lock()
	var stop []cancel.Context
	for _, s := range e.streams {
		stop = append(stop, s.rc)
	}
	e.mu.Unlock()
	for _, rc := range stop {
		rc.Stop()
	}
	e.halt()
	var late error
	select {
	case <-e.ended:
	case <-ctx.Done():
		late = fault.New(fault.BackendCancelled, "mocker: the scheduler still runs: %w", ctx.Err())
	}
	return errors.Join(late, e.closeSockets())
}

func (e *Engine) warnAbout(format string, args ...any) {
	if e.options.Warn != nil {
		e.options.Warn(fmt.Sprintf(format, args...))
	}
}
