// Package replay holds what one replay depends on, and runs it.
//
// A Spec is everything a run depends on: Run opens its workload, builds the
// cluster and moves the clock until every request is answered; Steps opens a run
// that goes on as far as its caller says; RunLive takes the real clock. Read
// spec.go, check.go, then open.go, run.go and live.go; recorded.go has the names
// of settings in run directories. Package engines has the topology of a cluster,
// engineargs the arguments of an engine, harness, offline and online the clocks,
// collector the report.
package replay

import (
	"cmp"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/generate"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/sim"
)

// Spec is one replay. Two runs of one spec give the same report, but for the
// real time they take.
type Spec struct {
	Trace     *Trace            // the file to replay; nil: Synthetic
	Synthetic loadgen.Synthetic // read without a trace; Block, Seed and Compat are filled in by Run

	Mode        loadgen.Mode
	MaxInFlight int     // requests in flight in concurrency mode, at least 1; trace mode ignores it
	Speedup     float64 // divides the times of the workload in trace mode, finite and > 0; concurrency mode ignores it

	Topology // the cluster

	// Until is the instant after which no request arrives and no pass begins, so
	// that requests may be left; 0: the replay runs to its end.
	Until sim.Time
	// Reject turns away requests that no idle engine could run. Otherwise one of
	// them fails the replay, with an *engines.OversizeError.
	Reject bool
}

// Topology is the cluster of a replay, Pool one of its pools, ScaleEvent a change
// of their sizes, and Given what a command line says of them.
type (
	Topology   = engines.Topology
	Pool       = engines.Pool
	ScaleEvent = engines.ScaleEvent
	Given      = engines.Given
)

// KeepSize leaves a pool as it is at a ScaleEvent.
const KeepSize = engines.KeepSize

// OnePool returns a cluster of workers that prefill and decode.
func OnePool(engine engineargs.Args, workers int) []Pool { return engines.OnePool(engine, workers) }

// TwoPools returns a cluster of a prefill pool and a decode pool.
func TwoPools(prefill, decode Pool) []Pool { return engines.TwoPools(prefill, decode) }

// Trace is a file to replay, or a trace made by laws.
type Trace struct {
	Path   string          // "-": standard input; files packed with gzip or zstd are unpacked
	Made   generate.Config // read in place of a file, when Path is ""
	Format string          // by a name of loadgen/formats; "": Mooncake
	Detect bool            // take the format that the file is in, instead of Format
	// BlockTokens are the tokens of a hash id, ≥ 1; 0, unless Format is Mooncake or
	// Agentic, those that the reference reads: as the file or its format says, or 512.
	BlockTokens int
	SharedRatio float64 // share of the first prompt common to agents of a group, 0 to 1; Agentic only
	Groups      int     // groups of agents that share it; 0: none do; Agentic only
	// LeftOpen says what the file leaves open; the zero value makes nothing up.
	LeftOpen formats.LeftOpen
}

// format returns the format that was asked for, and whether the reference reads
// it: the size of a hash id's block is asked for then, not told by the file.
func (t *Trace) format() (name string, sized bool) {
	name = cmp.Or(t.Format, formats.Mooncake)
	return name, name == formats.Mooncake || name == formats.Agentic
}
