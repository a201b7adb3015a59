package replay

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/generate"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/caches"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// Spec is the settings of one replay. Two runs of a Spec give the same report, except for real time.
type Spec struct {
	Trace     *Trace            // the file to replay; nil: Synthetic
	Synthetic loadgen.Synthetic // used without a trace; Block, Seed and Compat are set by Run

	// Classes defines classes and assigns requests to them; nil: the classes of the trace.
	Classes []loadgen.Class

	Mode        loadgen.Mode
	MaxInFlight int     // limit of requests in flight in concurrency mode, at least 1; ignored in trace mode
	Speedup     float64 // divides the times of the workload in trace mode, finite and > 0; ignored in concurrency mode

	Topology `record:"inline"` // the cluster

	// Warm is the initial caches of workers; nil: empty.
	Warm *caches.File `record:"warm_caches"`

	// Until is the instant after which no request arrives and no pass begins, so requests may be unfinished. 0
	// replays to the end.
	Until sim.Time
	// Window is the part of the replay for the report, on its clock; the zero value is the whole replay.
	Window collector.Window `record:"omitzero"`
	// Recycle repeats the workload in closed loop until the end of the Window.
	Recycle bool
	// Stream replays a trace without keeping it, in trace mode; nil: the trace is kept.
	Stream *Stream `record:"-"`
	// Reject rejects requests that do not fit on an idle engine. Without Reject, a request that does not fit ends the
	// replay with an *engines.OversizeError.
	Reject bool
}

// Topology is the cluster of a replay. Pool is one of its pools, and Kind is equal workers of a pool. ScaleEvent is a
// change of sizes, and Change a change of settings during the run. Faults are the failures, and Autoscale an
// autoscaler.
type (
	Topology   = engines.Topology
	Pool       = engines.Pool
	Kind       = engines.Kind
	ScaleEvent = engines.ScaleEvent
	Change     = engines.Change
	Faults     = engines.Faults
	PD         = engines.PD
	Autoscale  = autoscale.Config
)

// KeepSize keeps the size of a pool at a ScaleEvent.
const KeepSize = engines.KeepSize

// OnePool returns a cluster of aggregated workers.
func OnePool(engine engineargs.Args, workers int) []Pool { return engines.OnePool(engine, workers) }

// Mix returns a pool of several kinds of workers.
func Mix(kinds []Kind) Pool { return engines.Mix(kinds) }

// TwoPools returns a cluster of a prefill pool and a decode pool.
func TwoPools(prefill, decode Pool) []Pool { return engines.TwoPools(prefill, decode) }

// Trace is a file to replay, or a generated trace.
type Trace struct {
	Path   string          // "-": standard input; files compressed with gzip or zstd are decompressed
	Made   generate.Config // generated trace, if Path is ""
	Format string          // name of a format of loadgen/formats; "": Mooncake
	Detect bool            // detects the format of the file, and ignores Format
	// BlockTokens is the number of tokens per hash id. BlockTokens must be at least 1 for the formats that the
	// reference reads, Mooncake and Agentic. For other formats, 0 is the number of the file or its format, or 512.
	BlockTokens int
	SharedRatio float64 // share of the first prompt that agents of a group share, 0 to 1; only for Agentic
	Groups      int     // number of groups of agents that share the prefix; 0: none; only for Agentic
	// LeftOpen sets values that the file does not have. The zero value adds none.
	LeftOpen formats.LeftOpen
}

// Assumptions returns the assumptions of a result: those of the cluster, and estimated lengths of texts.
func (s *Spec) Assumptions() []engines.Assumption {
	all := s.Topology.Assumptions()
	if t := s.Trace; t != nil && t.LeftOpen.TokensPerByte > 0 && t.LeftOpen.Tokenizer == "" {
		all = append(all, engines.Assumption{Key: "text_lengths", Text: fmt.Sprintf("%v tokens per byte of text, an estimate: --tokenizer counts them", t.LeftOpen.TokensPerByte)})
	}
	return all
}

// format returns the name of the format. sized reports whether the reference reads the format, so that the block size
// is a setting and not a property of the file.
func (t *Trace) format() (name string, sized bool) {
	name = cmp.Or(t.Format, formats.Mooncake)
	return name, name == formats.Mooncake || name == formats.Agentic
}

// Validate returns an error for a replay that cannot run. Errors of the workload are found when it is opened.
func (s *Spec) Validate() error {
	if err := cmp.Or(s.checkMode(), s.checkRecycle(), s.checkStream()); err != nil {
		return err
	}
	if least := s.Choice().Info().MinWorkers; least > 1 && len(s.Pools) == 1 && s.Pools[0].Count < least && len(s.Scale)+len(s.Later()) == 0 && !s.Autoscales() {
		return fmt.Errorf("workers are %d, must be at least %d with the KV router", s.Pools[0].Count, least)
	}
	return s.Topology.Validate()
}

func (s *Spec) checkMode() error {
	switch {
	case !(s.Until >= 0) || math.IsInf(float64(s.Until), 0):
		return fmt.Errorf("the end is at %v ms, must be a finite instant >= 0", float64(s.Until))
	case !(s.Window.From >= 0) || math.IsInf(float64(s.Window.From), 0) || !(s.Window.To == 0 || s.Window.To > s.Window.From) || math.IsInf(float64(s.Window.To), 0):
		return fmt.Errorf("the window is %v, must be finite instants >= 0, the second after the first", s.Window)
	case s.Until > 0 && s.Window.From > s.Until:
		return fmt.Errorf("the window is %v and the replay ends at %v ms, must be a window that begins before", s.Window, float64(s.Until))
	case s.Mode == loadgen.Concurrency && s.MaxInFlight < 1:
		return fmt.Errorf("requests in flight are %d, must be at least 1", s.MaxInFlight)
	case s.Mode == loadgen.Trace && s.Trace != nil && !s.Trace.Detect && s.Trace.Format == formats.Agentic:
		return errors.New("an agentic trace has no timestamps, use concurrency mode")
	}
	return nil
}

// Recorded returns the settings for run directories, with defaults filled in. Keys are the names of the fields, or
// the tag record. Digests are computed from these settings.
func (s Spec) Recorded() any {
	type fields Spec
	s.Router = s.Choice()
	if name, ok := s.Router.(policy.Name); ok {
		switch info := name.Info(); {
		case info.Caches:
			s.Router = &policy.Configured{Name: name, Config: router.DefaultConfig()}
		case info.Gateway:
			s.Router = &policy.Gateway{Name: name, Settings: policy.DefaultGatewaySettings(name)}
		}
	}
	return fields(s)
}
