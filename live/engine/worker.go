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

// WorkerConfig configures a worker. The zero value is valid for a process with settings in the environment.
type WorkerConfig struct {
	Namespace     string // the default is dynamo
	Component     string // the default is backend
	Endpoint      string // the default is generate
	EndpointTypes string // comma-separated EndpointTypes; default chat,completions
	Mode          Mode   // the default is Aggregated
	ModelName     string // name in requests of users; default: the engine's name
	ModelPath     string // directory of config.json and tokenizer.json for the card; "": no files

	NoLocalIndexer bool // do not offer an index of the worker's KV events
	NoKVRouting    bool // do not publish KV events

	// HealthCheck is the canary's request. nil: DYN_HEALTH_CHECK_PAYLOAD, or the engine's request.
	HealthCheck map[string]any
	// CanaryAfter is the time without a successful response after which the canary sends a probe; default 10 s.
	CanaryAfter time.Duration
	// CanaryLimit is the timeout of a probe; default 3 s.
	CanaryLimit time.Duration

	// Runtime is the configuration of the runtime; nil: from the environment.
	Runtime *drt.Config
	// Publish returns the sink for the KV events of a rank; nil: events are dropped. The returned function is called
	// after the engine's cleanup.
	Publish func(PublisherContext) (KVEventSink, func(), error)
	// WorkerLabel adds the label worker_id to the metrics.
	WorkerLabel bool
	// Ready is called when the worker is registered. If Ready returns an error, the worker ends.
	Ready func(Ready) error

	Tracing *telemetry.Tracing       // nil: from the environment
	Metrics *telemetry.Metrics       // nil: new metrics
	Log     *slog.Logger             // nil: text on stderr
	Getenv  func(name string) string // nil: os.Getenv
	Signals <-chan os.Signal         // nil: SIGTERM and SIGINT of the process
	Exit    func(code int)           // ends the process if the shutdown takes too long; nil: os.Exit
}

// PublisherContext describes the source of KV events for a publisher.
type PublisherContext struct {
	Runtime  *drt.Runtime
	Endpoint *drt.Endpoint
	WorkerID uint64
	Source   KVEventSource
	Config   EngineConfig
}

// Ready describes a registered worker.
type Ready struct {
	WorkerID uint64
	Endpoint drt.Name
	System   string // address of /metrics, /health and /live; "": none
}

// ExitTimeout is the exit code of a worker after a shutdown that took too long.
const ExitTimeout = 143

// limits are the timeouts and the address of a worker, from the environment.
type limits struct {
	grace    time.Duration // time to accept requests after leaving discovery
	shutdown time.Duration // time for the shutdown after grace, then the process ends
	runtime  time.Duration // time for running streams at the end
	system   int           // port of the system server; negative: none
	host     string        // host of the system server
}

// Worker serves one engine once.
type Worker struct {
	engine  Engine
	config  WorkerConfig
	limits  limits
	types   []EndpointType
	log     *slog.Logger
	metrics *telemetry.Metrics

	started   bool // Start was called, so Cleanup must be called once
	cleaned   bool
	rt        *drt.Runtime
	endpoint  *drt.Endpoint
	serving   *drt.Serving
	adapter   *Adapter
	tracing   *telemetry.Tracing
	gauges    *telemetry.Worker
	requests  *telemetry.Endpoint
	canary    *canary
	system    string // address of the system server; "": none
	card      ModelCard
	engineCfg EngineConfig
	ownTraces bool
	undo      []func() // close publishers and the system server, called in reverse order
	watchdog  *time.Timer
	until     time.Time // when the watchdog ends the process

	controls   sync.Mutex // serializes controls; guards registered
	registered bool
	closing    bool // guarded by controls: shutting down, never registered again
}

// Run serves an engine until a signal, and then shuts it down in order. Run returns nil after a signal. Run returns
// an *Error if the worker could not start or lost its runtime; the process should then exit with a code other than 0.
func Run(e Engine, c WorkerConfig) error {
	w, err := NewWorker(e, c)
	if err != nil {
		return err
	}
	return w.Run(context.Background())
}

// NewWorker checks the configuration and returns a worker. Errors are fault.BackendInvalidArgument.
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

// readLimits reads the limits from the environment. Times are in seconds.
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

// Run runs the worker until a signal, until ctx ends, or until the runtime is lost. Run can be called once.
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
	defer w.cleanUp() // for early returns; does nothing after shutDown
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

// watchSignals returns a context that ends at the first signal.
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

// connectRuntime connects to the runtime. A signal ends the attempt without an error.
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

// disconnectRuntime waits for running streams, and then closes the connections.
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
