package engine

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/drttest"
	"github.com/replay-llm/replay/live/telemetry"
)

// diary records lines in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, " ")
}

// probeEngine records the calls of its worker.
type probeEngine struct {
	diary
	fake
	start   func() error
	drain   func(context.Context) error
	cleanup error
}

func (p *probeEngine) Start(context.Context, uint64) (EngineConfig, error) {
	p.note("start")
	if p.start != nil {
		if err := p.start(); err != nil {
			return EngineConfig{}, err
		}
	}
	return EngineConfig{Model: "probe", KVCacheBlockSize: 16, ContextLength: 4096, BootstrapHost: "h", BootstrapPort: 7}, nil
}

func (p *probeEngine) Drain(ctx context.Context) error {
	p.note("drain")
	if p.drain != nil {
		return p.drain(ctx)
	}
	return nil
}

func (p *probeEngine) Cleanup(context.Context) error {
	p.note("cleanup")
	return p.cleanup
}

// bench is a worker on separate servers. The test controls its signals and its exit.
type bench struct {
	hub     *drttest.Servers
	signals chan os.Signal
	exited  chan int
	ready   chan Ready
	metrics *telemetry.Metrics
	config  WorkerConfig
}

func newBench(t *testing.T, environment ...string) *bench {
	t.Helper()
	b := &bench{
		hub: drttest.Start(t), signals: make(chan os.Signal, 1), exited: make(chan int, 1), ready: make(chan Ready, 1),
		metrics: telemetry.NewMetrics(),
	}
	env := map[string]string{"DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS": "0"}
	for _, e := range environment {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	config := b.hub.Config()
	b.config = WorkerConfig{
		Runtime: &config,
		Ready:   func(r Ready) error { b.ready <- r; return nil }, Metrics: b.metrics, Log: slog.New(slog.DiscardHandler),
		Getenv: func(name string) string { return env[name] }, Signals: b.signals, Exit: func(code int) { b.exited <- code },
	}
	return b
}

// run runs a worker in the background.
func (b *bench) run(t *testing.T, e Engine) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- Run(e, b.config) }()
	return done
}

// client returns a client for the worker's endpoint.
func (b *bench) client(t *testing.T) *Remote {
	t.Helper()
	return b.remote(t, "backend")
}

// remote returns a client for the endpoint of a component.
func (b *bench) remote(t *testing.T, component string) *Remote {
	t.Helper()
	rt := drttest.Connect(t, b.hub.Config())
	return NewRemote(drttest.Client(t, rt, "dynamo."+component+".generate"), drt.RoundRobin())
}
