package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/link"
	"github.com/replay-llm/replay/live/telemetry"
)

// WorkerConfig is how an engine is served. The zero value is a good one for a
// process that has its settings in the environment.
type WorkerConfig struct {
	Namespace     string // default dynamo
	Component     string // default backend
	Endpoint      string // default generate
	EndpointTypes string // comma list of EndpointType; default chat,completions
	Mode          Mode   // default Aggregated
	ModelName     string // that users ask for; default: the engine's name
	ModelPath     string // directory of config.json and tokenizer.json, told in the card; empty: none

	NoLocalIndexer bool // do not offer an index of the worker's own KV events
	NoKVRouting    bool // do not publish KV events

	// HealthCheck is the canary's request; nil: DYN_HEALTH_CHECK_PAYLOAD, or the engine's request.
	HealthCheck map[string]any
	// CanaryAfter is how long without a good response the canary is sent;
	// default 10 s.
	CanaryAfter time.Duration
	// CanaryLimit is how long its answer may take; default 3 s.
	CanaryLimit time.Duration

	// Runtime is the configuration of the runtime; nil: from the environment.
	Runtime *drt.Config
	// Publish takes the KV events of a rank; nil: they are dropped. The function it returns is called when the
	// worker has cleaned up.
	Publish func(PublisherContext) (KVEventSink, func(), error)
	// WorkerLabel adds the label worker_id to the metrics.
	WorkerLabel bool
	// Ready is called when the worker is discoverable. Its error ends the worker.
	Ready func(Ready) error

	Tracing *telemetry.Tracing       // nil: from the environment
	Metrics *telemetry.Metrics       // nil: the worker's own
	Log     *slog.Logger             // nil: text on stderr
	Getenv  func(name string) string // nil: os.Getenv
	Signals <-chan os.Signal         // nil: SIGTERM and SIGINT of the process
	Exit    func(code int)           // ends the process when shutdown takes too long; nil: os.Exit
}

// PublisherContext is the origin of the KV events to publish.
type PublisherContext struct {
	Runtime  *drt.Runtime
	Endpoint *drt.Endpoint
	WorkerID uint64
	Source   KVEventSource
	Config   EngineConfig
}

// Ready describes a worker that is discoverable.
type Ready struct {
	WorkerID uint64
	Endpoint drt.Name
	System   string // address of /metrics, /health and /live; empty if there is none
}

// ExitTimeout is the exit code of a worker after a shutdown that took too long.
const ExitTimeout = 143

// limits are the times of a worker's life, from the environment.
type limits struct {
	grace    time.Duration // in which an unregistered worker still takes requests
	shutdown time.Duration // for all after that, before the process is ended
	runtime  time.Duration // for streams that are still being answered at the end
	system   int           // port of the system server; negative: none
	host     string        // that it listens at
}

// Worker serves one engine, once.
type Worker struct {
	engine  Engine
	config  WorkerConfig
	limits  limits
	types   []EndpointType
	log     *slog.Logger
	metrics *telemetry.Metrics

	started   bool // Start was attempted: then Cleanup is called once
	cleaned   bool
	rt        *drt.Runtime
	endpoint  *drt.Endpoint
	serving   *drt.Serving
	adapter   *Adapter
	tracing   *telemetry.Tracing
	gauges    *telemetry.Worker
	requests  *telemetry.Endpoint
	canary    *canary
	system    string // address of the system server; empty if there is none
	card      ModelCard
	engineCfg EngineConfig
	ownTraces bool
	undo      []func() // closes publishers and the system server, last first
	watchdog  *time.Timer
	until     time.Time // when it ends the process

	controls   sync.Mutex // one control at a time; guards registered
	registered bool
	closing    bool // under controls: shutting down, nothing is registered again
}

// Run serves an engine until a signal, and takes it down in order. It returns nil
// after a signal, and an *Error if the worker could not start or lost its
// runtime; then the process should end with a code that is not 0.
func Run(e Engine, c WorkerConfig) error {
	w, err := NewWorker(e, c)
	if err != nil {
		return err
	}
	return w.Run(context.Background())
}

// NewWorker checks the configuration. Errors are fault.BackendInvalidArgument.
func NewWorker(e Engine, c WorkerConfig) (*Worker, error) {
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	if c.Exit == nil {
		c.Exit = os.Exit
	}
	if c.Log == nil {
		c.Log = slog.New(telemetry.LogHandler(slog.NewTextHandler(os.Stderr, nil)))
	}
	c.Namespace, c.Component, c.Endpoint = cmp.Or(c.Namespace, "dynamo"), cmp.Or(c.Component, "backend"), cmp.Or(c.Endpoint, "generate")
	c.EndpointTypes = cmp.Or(c.EndpointTypes, "chat,completions")
	c.CanaryAfter, c.CanaryLimit = cmp.Or(c.CanaryAfter, 10*time.Second), cmp.Or(c.CanaryLimit, 3*time.Second)
	mode, err := ParseMode(string(cmp.Or(c.Mode, Aggregated)))
	if err != nil {
		return nil, err
	}
	c.Mode = mode
	types, err := parseEndpointTypes(c.EndpointTypes)
	if err != nil {
		return nil, err
	}
	l, err := readLimits(c.Getenv)
	if err != nil {
		return nil, err
	}
	if c.Metrics == nil {
		c.Metrics = telemetry.NewMetrics()
	}
	return &Worker{engine: e, config: c, limits: l, types: types, log: c.Log, metrics: c.Metrics}, nil
}

// readLimits reads the times from the environment, in seconds.
func readLimits(getenv func(string) string) (limits, error) {
	l := limits{grace: 5 * time.Second, shutdown: 30 * time.Second, runtime: 900 * time.Second, system: -1, host: cmp.Or(getenv("DYN_SYSTEM_HOST"), "127.0.0.1")}
	if debugBuild {
		l.shutdown = 5 * time.Second
	}
	for _, v := range []struct {
		name string
		to   *time.Duration
	}{
		{"DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS", &l.grace},
		{"DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT", &l.shutdown},
		{"DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS", &l.runtime},
	} {
		text := getenv(v.name)
		if text == "" {
			continue
		}
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || seconds != seconds || seconds > 1e9 {
			return l, fault.New(fault.BackendInvalidArgument, "%s is %q, must be seconds", v.name, text)
		}
		*v.to = time.Duration(max(0, seconds) * float64(time.Second))
	}
	if text := getenv("DYN_SYSTEM_PORT"); text != "" {
		port, err := strconv.Atoi(text)
		if err != nil || port > 65535 {
			return l, fault.New(fault.BackendInvalidArgument, "DYN_SYSTEM_PORT is %q, must be a port, 0 for any, or -1 for none", text)
		}
		l.system = port
	}
	return l, nil
}

// Run returns the worker's life. It can be called once. It ends with a signal, with
// ctx, or when the runtime is lost.
func (w *Worker) Run(ctx context.Context) (err error) {
	if w.rt != nil {
		return fault.New(fault.BackendInvalidArgument, "worker: it has run already, must have a new one")
	}
	signals, ignore := w.watchSignals(ctx)
	defer ignore()
	if err := w.connectRuntime(signals); err != nil || w.rt == nil {
		return err
	}
	defer func() {
		if w.watchdog != nil {
			w.watchdog.Stop()
		}
	}()
	defer w.disconnectRuntime()
	if signals.Err() != nil {
		return nil // the engine was never started
	}
	defer w.cleanUp() // the safety net: does nothing after a shutdown
	if err := w.startEngine(); err != nil {
		return err
	}
	if signals.Err() == nil {
		if err := w.makeDiscoverable(signals); err != nil {
			return err
		}
		err = w.awaitEnd(signals)
	}
	w.shutDown()
	return err
}

// watchSignals returns a context that ends with the first signal.
func (w *Worker) watchSignals(ctx context.Context) (context.Context, func()) {
	arrived := w.config.Signals
	ignore := func() {}
	if arrived == nil {
		own := make(chan os.Signal, 1)
		signal.Notify(own, syscall.SIGTERM, syscall.SIGINT)
		arrived, ignore = own, func() { signal.Stop(own) }
	}
	ctx, end := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-arrived:
			w.log.Info("signal", "signal", fmt.Sprint(s))
			end(fmt.Errorf("signal %v", s))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { ignore(); end(nil); <-done }
}

// connectRuntime reaches the runtime. A signal ends the attempt, and is no error.
func (w *Worker) connectRuntime(signals context.Context) error {
	config, err := drt.FromEnv(w.config.Getenv)
	if w.config.Runtime != nil {
		config, err = *w.config.Runtime, nil
	}
	if err != nil {
		return fault.New(fault.BackendInvalidArgument, "%w", err)
	}
	if config.Log == nil {
		config.Log = w.log
	}
	rt, err := drt.Connect(signals, config)
	switch {
	case err != nil && signals.Err() != nil:
		return nil
	case err != nil:
		return fault.New(fault.BackendCannotConnect, "runtime: %w", err)
	}
	w.rt = rt
	rt.Links().SetWatch(link.Watch{Count: w.metrics.Refusals(), Warn: func(text string) { w.log.Warn(text) }})
	w.endpoint, err = rt.Endpoint(w.config.Namespace, w.config.Component, w.config.Endpoint)
	if err != nil {
		return errors.Join(fault.New(fault.BackendInvalidArgument, "%w", err), rt.Close(context.Background()))
	}
	return nil
}

// disconnectRuntime ends what was connected: streams that are still being answered first.
func (w *Worker) disconnectRuntime() {
	ctx, release := context.WithTimeout(context.Background(), w.limits.runtime)
	defer release()
	if err := w.rt.Close(ctx); err != nil {
		w.log.Warn("runtime", "reason", err)
	}
	if w.ownTraces {
		ctx, release := context.WithTimeout(context.Background(), time.Second)
		defer release()
		if err := w.tracing.Close(ctx); err != nil {
			w.log.Warn("spans were lost", "reason", err)
		}
	}
}
