// Package replay says what one replay is made of and runs it.
//
// A Spec holds everything a run depends on; Run opens its workload, builds the
// cluster and moves the clock until every request is answered. Read spec.go,
// check.go, then open.go and run.go; engineargs has the arguments of an engine, offline the
// clock, collector the report.
package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/generate"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/router"
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

	// A cluster is either one pool of Workers with engines as Aggregated says,
	// nil for the defaults, or two pools with engines as Prefill and Decode say.
	Aggregated      *engineargs.Args
	Prefill, Decode *engineargs.Args
	Workers         int // at least 1; with two pools it is 1
	PrefillWorkers  int // at least 1; with one pool it is 1
	DecodeWorkers   int // at least 1; with one pool it is 1

	// Scale changes the size of the pools as time goes on, in order of time.
	Scale []offline.ScaleEvent
	// Until is the instant after which no request arrives and no pass begins, so
	// that requests may be left; 0: the replay runs to its end.
	Until sim.Time
	// Reject turns away requests that no idle engine could run. Otherwise one of
	// them fails the replay, with an *offline.OversizeError.
	Reject bool

	Router       router.Mode
	RouterConfig *router.Config // nil: the defaults; round robin ignores it
	// PrefillLoad names the external estimator of the KV router's prefill load
	// model; the zero value: none.
	PrefillLoad engineargs.AIC

	Compat bool   // repeat the reference where it departs from what it imitates
	Seed   uint64 // of whatever is drawn
}

// Trace is a file to replay, or a trace made by laws.
type Trace struct {
	Path   string          // "-": standard input; files packed with gzip or zstd are unpacked
	Made   generate.Config // read in place of a file, when Path is ""
	Format Format          // "": Mooncake
	Detect bool            // take the format that the file is in, instead of Format
	// BlockTokens are the tokens of a hash id, ≥ 1; 0, unless Format is Mooncake or
	// Agentic: as the file or its format says, or 512.
	BlockTokens int
	SharedRatio float64 // share of the first prompt common to agents of a group, 0 to 1; Agentic only
	Groups      int     // groups of agents that share it; 0: none do; Agentic only
	// LeftOpen says what the file leaves open; the zero value makes nothing up.
	LeftOpen formats.LeftOpen
}

// Format is the format of a trace, by a name of loadgen/formats.
type Format string

// The formats that the reference reads.
const (
	Mooncake Format = "mooncake"                // a request per line
	Agentic  Format = "applied_compute_agentic" // an agent per line; it has no timestamps
)

// own says that loadgen itself reads f, as the reference does.
func (f Format) own() bool { return f == "" || f == Mooncake || f == Agentic }

// ParseFormat is the format of the given name.
func ParseFormat(name string) (Format, error) {
	if names := formats.Names(); !slices.Contains(names, name) {
		return "", fmt.Errorf("trace format is %q, want %s", name, strings.Join(names, ", "))
	}
	return Format(name), nil
}

// Disaggregated says that prefill and decode have pools of their own.
func (s *Spec) Disaggregated() bool { return s.Prefill != nil && s.Decode != nil }

// Pools are the arguments of the cluster's engines: those of the one pool, or
// of the prefill and the decode pool.
func (s *Spec) Pools() []engineargs.Args {
	switch {
	case s.Disaggregated():
		return []engineargs.Args{*s.Prefill, *s.Decode}
	case s.Aggregated != nil:
		return []engineargs.Args{*s.Aggregated}
	}
	return []engineargs.Args{engineargs.Default()}
}

// Warnings names settings that do not mean what they seem to.
func (s *Spec) Warnings() []string {
	var all []string
	names := []string{"prefill workers: ", "decode workers: "}
	for i, pool := range s.Pools() {
		name := ""
		if s.Disaggregated() {
			name = names[i]
		}
		if s.Compat && pool.G2.Blocks > 0 {
			all = append(all, fmt.Sprintf("%snum_g2_blocks is %d: nothing is offloaded, as in the reference's release", name, pool.G2.Blocks))
			pool.G2.Blocks = 0
		}
		for _, w := range pool.Warnings() {
			all = append(all, name+w)
		}
	}
	return all
}
