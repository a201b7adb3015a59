// Package engine is the contract of a served engine, and the code between an engine and its callers.
//
// An Engine knows inference: it takes a request and yields chunks of tokens. A
// Worker knows the runtime: it registers the engine, serves it, and takes it
// down in order. Nothing is in between but the adapter, which holds engines to
// the rule of terminals and carries cancellation. The main of a backend is
//
//	e, cfg, err := FromArgs(os.Args[1:])
//	…
//	err = engine.Run(e, cfg)
//
// Read engine.go, request.go, adapter.go, worker.go, in that order;
// docs/runtime.md shows a small engine. Package conformance checks
// an engine against all of this.
package engine

import (
	"context"
	"iter"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/fault"
)

// Error is an error that crosses the wire. What an engine returns or yields and
// is none becomes one, of type fault.BackendUnknown.
type Error = fault.Error

// Engine serves requests. Embed Defaults for an Abort and a Drain that do
// nothing. How one is made is its own affair; a package with an engine has a
// function FromArgs(argv) (Engine, WorkerConfig, error).
type Engine interface {
	// Start makes the engine ready for Generate. The id of the worker is
	// opaque. A signal does not interrupt it; ctx does, when all is lost.
	Start(ctx context.Context, workerID uint64) (EngineConfig, error)

	// Generate serves one request; many at once are served concurrently. An
	// error here means that nothing was begun. Everything later goes through
	// the sequence, which ends with exactly one terminal: a chunk with a finish
	// reason, or an error. The sequence is pulled once.
	//
	// Two signals reach it, and they differ. If rc is stopped or killed, a caller asked for it: yield a
	// terminal chunk with FinishCancelled. If ctx is done, the consumer is gone: release and return, since the
	// rest is not read. ctx ends on every way out of the sequence. So a defer inside the sequence releases what
	// a request holds, never Abort.
	Generate(ctx context.Context, rq *Request, rc GenContext) (iter.Seq2[*Chunk, error], error)

	// Abort is called when a request was stopped or killed, and not for
	// any other end. It must not block, and the sequence may still be running.
	Abort(rc cancel.Context)

	// Drain waits for the requests in flight, before Cleanup, while the runtime
	// is still up.
	Drain(ctx context.Context) error

	// Cleanup releases everything. It is called once after Start was attempted,
	// whether that went well or not, and must stand being called again, or
	// without a Start.
	Cleanup(ctx context.Context) error
}

// Defaults are an Abort and a Drain that do nothing.
type Defaults struct{}

// Abort does nothing: the sequence watches its GenContext.
func (Defaults) Abort(cancel.Context) {}

// Drain does nothing: requests in flight are cut off by Cleanup.
func (Defaults) Drain(context.Context) error { return nil }

// GenContext is what an engine knows of a request besides its content.
type GenContext interface {
	cancel.Context
	// NotifyFirstToken notes that the first token is there, in case the engine
	// knows before it yields it. On a decode worker, aborts wait for it. Saying
	// it twice is saying it once.
	NotifyFirstToken()
	// Metadata is the headers that came with the request, by lower-case name.
	// It is not to be changed.
	Metadata() map[string]string
}

// EngineConfig is the description that a started engine returns. All but Model is optional; a zero is not advertised.
type EngineConfig struct {
	Model                 string         // name by which it is asked for; required
	ServedModelName       string         // name shown to users; Model if empty
	ContextLength         int            // tokens of prompt and answer together
	KVCacheBlockSize      int            // tokens per block; without it routers go round robin
	TotalKVBlocks         int            // blocks on the device
	MaxSeqs               int            // requests in one pass
	MaxBatchedTokens      int            // tokens in one pass
	DataParallelSize      int            // ranks; 1 if zero
	DataParallelStartRank int            // the first rank
	BootstrapHost         string         // where decode workers meet a prefill worker (package rendezvous)
	BootstrapPort         int            // both, or neither is advertised
	RuntimeData           map[string]any // anything else, for the model card
}

// KVEventSource is where the KV events of one data-parallel rank come from:
// the engine pushes them, or publishes them on a socket, or both.
type KVEventSource struct {
	DPRank int
	// OnReady is handed the sink once the worker has one; nil if the socket is all there is.
	OnReady func(KVEventSink)
	// Zmq is the engine's own publisher.
	Zmq *ZmqSource
}

// ZmqSource is a socket with KV events.
type ZmqSource struct {
	Endpoint string // as tcp://host:port
	Topic    string
}

// KVEventSink takes batches of KV events in order, one event per element, in
// the type the publisher agreed on with the engine. It does not block.
type KVEventSink func(events []any)

// KVEventsEngine is an Engine that has KV events.
type KVEventsEngine interface {
	// KVEventSources lists one source per rank, the same at every call.
	KVEventSources() ([]KVEventSource, error)
}

// MetricsContext is where an engine puts its own metrics.
type MetricsContext struct {
	WorkerID uint64
	Model    string
	// Register takes collectors of the metrics library (prometheus.Collector).
	Register func(collector any) error
}

// MetricsBindings is which ranks an engine reports on, and how.
type MetricsBindings struct {
	DPRanks []int
	// OnPublisherReady is handed, per rank, what to report snapshots to.
	OnPublisherReady func(rank int, publish func(RankSnapshot))
}

// RankSnapshot is how full one rank is.
type RankSnapshot struct {
	ActiveBlocks int
	TotalBlocks  int
	// HitRate is the share of prompt tokens found in the cache, 0 to 1;
	// negative while none was measured.
	HitRate float64
}

// MetricsEngine is an Engine that reports how full it is.
type MetricsEngine interface {
	SetupMetrics(MetricsContext) (MetricsBindings, error)
}

// HealthEngine is an Engine that knows a request that shows whether it works.
type HealthEngine interface {
	HealthCheckPayload() (map[string]any, error)
}

// ControlledEngine is an Engine that accepts commands besides requests, such as to sleep.
type ControlledEngine interface {
	// Controls lists the names that Control takes.
	Controls() []string
	Control(ctx context.Context, name string, body []byte) ([]byte, error)
}

// LiveEngine is an Engine that reports whether its requests make progress. If not, its worker sends no heartbeats and rejects
// requests, so that callers go to other workers. Alive does not block.
type LiveEngine interface{ Alive() bool }

// ActiveEngine is an Engine that tells how many requests it is working on.
type ActiveEngine interface {
	ActiveRequests() int
}
