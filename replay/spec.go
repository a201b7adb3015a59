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

// Spec is one replay. Two runs of one spec give the same report, except the
// real time they take.
type Spec struct {
	Trace     *Trace            // the file to replay; nil: Synthetic
	Synthetic loadgen.Synthetic // read without a trace; Block, Seed and Compat are filled in by Run

	// Classes assigns requests to classes and defines them; nil: those of the trace.
	Classes []loadgen.Class

	Mode        loadgen.Mode
	MaxInFlight int     // requests in flight in concurrency mode, at least 1; trace mode ignores it
	Speedup     float64 // divides the times of the workload in trace mode, finite and > 0; concurrency mode ignores it

	Topology `record:"inline"` // the cluster

	// Warm is what the caches of workers begin with, which are empty otherwise; nil: nothing.
	Warm *caches.File `record:"warm_caches"`

	// Until is the instant after which no request arrives and no pass begins, so
	// that requests may be left; 0: the replay runs to its end.
	Until sim.Time
	// Window is the part of the replay that the report is about, on its clock; the zero value is all
	// of it.
	Window collector.Window `record:"omitzero"`
	// Recycle repeats the workload from its beginning when it runs out, in closed loop, up to the
	// end of the Window.
	Recycle bool
	// Stream replays a trace without keeping it, in trace mode; nil: it is kept.
	Stream *Stream `record:"-"`
	// Reject turns away requests that no idle engine could run. Otherwise one of
	// them fails the replay, with an *engines.OversizeError.
	Reject bool
}

// Topology is the cluster of a replay, Pool one of its pools, Kind equal workers of a pool, ScaleEvent a change of
// sizes, Change a change of settings during the run, Faults the failures, and Autoscale an autoscaler.
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

// KeepSize leaves the size of a pool unchanged at a ScaleEvent.
const KeepSize = engines.KeepSize

// OnePool returns a cluster of workers that prefill and decode.
func OnePool(engine engineargs.Args, workers int) []Pool { return engines.OnePool(engine, workers) }

// Mix returns a pool of several kinds of workers.
func Mix(kinds []Kind) Pool { return engines.Mix(kinds) }

// TwoPools returns a cluster of a prefill pool and a decode pool.
func TwoPools(prefill, decode Pool) []Pool { return engines.TwoPools(prefill, decode) }

// Trace is a file to replay, or a trace made by laws.
type Trace struct {
	Path   string          // "-": standard input; files packed with gzip or zstd are unpacked
	Made   generate.Config // read instead of a file, when Path is ""
	Format string          // by a name of loadgen/formats; "": Mooncake
	Detect bool            // take the format that the file is in, instead of Format
	// BlockTokens are the tokens of a hash id, ≥ 1; 0, unless Format is Mooncake or
	// Agentic, the format that the reference reads: that of the file or its format, or 512.
	BlockTokens int
	SharedRatio float64 // share of the first prompt common to agents of a group, 0 to 1; Agentic only
	Groups      int     // groups of agents that share it; 0: none do; Agentic only
	// LeftOpen has what the file leaves open; the zero value makes nothing up.
	LeftOpen formats.LeftOpen
}

// Assumptions returns what a result of the replay rests on: the cluster's, and that lengths of texts are estimates.
func (s *Spec) Assumptions() []engines.Assumption {
	all := s.Topology.Assumptions()
	if t := s.Trace; t != nil && t.LeftOpen.TokensPerByte > 0 && t.LeftOpen.Tokenizer == "" {
		all = append(all, engines.Assumption{Key: "text_lengths", Text: fmt.Sprintf("%v tokens per byte of text, an estimate: --tokenizer counts them", t.LeftOpen.TokensPerByte)})
	}
	return all
}

// format returns the format that was asked for, and whether the reference reads
// it: the size of a hash id's block is asked for then, not told by the file.
func (t *Trace) format() (name string, sized bool) {
	name = cmp.Or(t.Format, formats.Mooncake)
	return name, name == formats.Mooncake || name == formats.Agentic
}

// Validate refuses replays that cannot be run. Errors of the workload are found when it is opened.
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

// Recorded returns s as run directories name its settings: with what it leaves to defaults written out. Their keys are
// the names of its fields, or those of the tag record; digests are made of them.
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
