// Package engine defines the contract of a served engine, and connects an engine to its callers.
//
// An Engine implements inference: it receives a request and yields chunks of tokens. A Worker connects an engine to
// the runtime: the Worker registers the engine, serves it, and shuts it down in order. Between an engine and its
// Worker is only the Adapter, which enforces the rule of terminals and passes cancellations on. The main function of
// a backend is
//
//	e, cfg, err := FromArgs(os.Args[1:])
//	…
//	err = engine.Run(e, cfg)
//
// Read engine.go, request.go, adapter.go, worker.go, in that order. docs/runtime.md has a small engine. Package
// conformance checks that an engine follows the contract.
package engine

import (
	"context"
	"iter"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/fault"
)

// Error is an error that is sent over the wire. Other errors of an engine are converted to the type
// fault.BackendUnknown.
type Error = fault.Error

// Engine serves requests. Embed Defaults for an Abort and a Drain that do nothing. A package with an engine has a
// function FromArgs(argv) (Engine, WorkerConfig, error).
type Engine interface {
	// Start prepares the engine for Generate. workerID is opaque. A signal does not interrupt Start; ctx ends if the
	// start must be abandoned.
	Start(ctx context.Context, workerID uint64) (EngineConfig, error)

	// Generate serves one request. Generate is called concurrently. A returned error means that nothing was started.
	// All later errors are yielded. The sequence ends with exactly one terminal: a chunk with a finish reason, or an
	// error. The sequence is read once.
	//
	// There are two signals. If rc is stopped or killed, a caller asked for the end: yield a terminal chunk with
	// FinishCancelled. If ctx is done, the consumer has left: release all resources and return. ctx ends at every end
	// of the sequence. Release the resources of a request in a defer inside the sequence, not in Abort.
	Generate(ctx context.Context, rq *Request, rc GenContext) (iter.Seq2[*Chunk, error], error)

	// Abort is called when a request is stopped or killed, and at no other end. Abort must not block. The sequence
	// may still be running.
	Abort(rc cancel.Context)

	// Drain waits for the requests in flight. Drain is called before Cleanup, while the runtime still works.
	Drain(ctx context.Context) error

	// Cleanup releases all resources. Cleanup is called once after Start was called, also if Start failed. Cleanup
	// must work if it is called again or without a Start.
	Cleanup(ctx context.Context) error
}

// Defaults are an Abort and a Drain that do nothing.
type Defaults struct{}

// Abort does nothing. The sequence must react to its GenContext.
func (Defaults) Abort(cancel.Context) {}

// Drain does nothing. Cleanup ends the requests in flight.
func (Defaults) Drain(context.Context) error { return nil }

// GenContext is the context of a request for an engine.
type GenContext interface {
	cancel.Context
	// NotifyFirstToken reports the first token, if the engine has it before it yields it. On a decode worker, aborts
	// wait for the first token. Repeated calls have no effect.
	NotifyFirstToken()
	// Metadata returns the headers of the request, by lower-case name. The map must not be changed.
	Metadata() map[string]string
}

// EngineConfig describes a started engine. Only Model is required. Zero values are not advertised.
type EngineConfig struct {
	Model                 string         // name of the model in the engine; required
	ServedModelName       string         // name for users; default Model
	ContextLength         int            // maximum tokens of prompt and answer together
	KVCacheBlockSize      int            // tokens per block; 0: routers use round robin
	TotalKVBlocks         int            // blocks on the device
	MaxSeqs               int            // requests in one pass
	MaxBatchedTokens      int            // tokens in one pass
	DataParallelSize      int            // number of ranks; default 1
	DataParallelStartRank int            // the first rank
	BootstrapHost         string         // host at which decode workers connect to a prefill worker (package rendezvous)
	BootstrapPort         int            // port for BootstrapHost; both are advertised or neither
	RuntimeData           map[string]any // additional data for the model card
}

// KVEventSource is the source of the KV events of one data-parallel rank: the engine calls a sink, publishes on a
// socket, or both.
type KVEventSource struct {
	DPRank int
	// OnReady receives the worker's sink. The sink is nil if the engine only publishes on a socket.
	OnReady func(KVEventSink)
	// Zmq is the socket on which the engine publishes.
	Zmq *ZmqSource
}

// ZmqSource is a socket with KV events.
type ZmqSource struct {
	Endpoint string // an address tcp://host:port
	Topic    string
}

// KVEventSink receives batches of KV events in order, one event per element. Publisher and engine agree on the type
// of the events. KVEventSink does not block.
type KVEventSink func(events []any)

// KVEventsEngine is an Engine with KV events.
type KVEventsEngine interface {
	// KVEventSources returns one source per rank, the same at every call.
	KVEventSources() ([]KVEventSource, error)
}

// MetricsContext is the data with which an engine registers its metrics.
type MetricsContext struct {
	WorkerID uint64
	Model    string
	// Register registers a prometheus.Collector.
	Register func(collector any) error
}

// MetricsBindings lists the ranks that an engine reports on.
type MetricsBindings struct {
	DPRanks []int
	// OnPublisherReady receives the function publish, to which the engine reports snapshots of a rank.
	OnPublisherReady func(rank int, publish func(RankSnapshot))
}

// RankSnapshot is the load of one rank.
type RankSnapshot struct {
	ActiveBlocks int
	TotalBlocks  int
	// HitRate is the fraction of prompt tokens found in the cache, 0 to 1. A negative value means that HitRate is
	// unknown.
	HitRate float64
}

// MetricsEngine is an Engine that reports its load.
type MetricsEngine interface {
	SetupMetrics(MetricsContext) (MetricsBindings, error)
}

// HealthEngine is an Engine with a request for health checks.
type HealthEngine interface {
	HealthCheckPayload() (map[string]any, error)
}

// ControlledEngine is an Engine that accepts commands, such as to sleep.
type ControlledEngine interface {
	// Controls returns the names that Control accepts.
	Controls() []string
	Control(ctx context.Context, name string, body []byte) ([]byte, error)
}

// LiveEngine is an Engine that reports whether its requests make progress. If Alive returns false, the worker sends
// no heartbeats and rejects requests, so that callers use other workers. Alive does not block.
type LiveEngine interface{ Alive() bool }

// ActiveEngine is an Engine that reports the number of its active requests.
type ActiveEngine interface {
	ActiveRequests() int
}
