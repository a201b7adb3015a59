package replay

import (
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Recorded is a Spec as run directories name its settings: their keys are the
// names of its fields. What was recorded once keeps its key, since digests are
// made of them.
type Recorded struct {
	Trace       *Trace
	Synthetic   loadgen.Synthetic
	Mode        loadgen.Mode
	MaxInFlight int
	Speedup     float64

	Aggregated, Prefill, Decode            *engineargs.Args
	Workers, PrefillWorkers, DecodeWorkers int // 1 where there is no such pool

	Scale  []ScaleEvent
	Until  sim.Time
	Reject bool

	Router       policy.Name
	RouterConfig *router.Config
	PrefillLoad  engineargs.AIC

	Compat bool
	Seed   uint64
}

// Recorded returns s with what it leaves to defaults written out.
func (s *Spec) Recorded() *Recorded {
	r := &Recorded{
		Trace: s.Trace, Synthetic: s.Synthetic, Mode: s.Mode, MaxInFlight: s.MaxInFlight, Speedup: s.Speedup,
		Workers: 1, PrefillWorkers: 1, DecodeWorkers: 1,
		Scale: s.Scale, Until: s.Until, Reject: s.Reject,
		Router: s.Router, RouterConfig: s.RouterConfig, PrefillLoad: s.PrefillLoad,
		Compat: s.Compat, Seed: s.Seed,
	}
	for i := range s.Pools {
		switch p := &s.Pools[i]; p.Role {
		case scheduler.Prefill:
			r.Prefill, r.PrefillWorkers = &p.Engine, p.Count
		case scheduler.Decode:
			r.Decode, r.DecodeWorkers = &p.Engine, p.Count
		default:
			r.Aggregated, r.Workers = &p.Engine, p.Count
		}
	}
	if s.Router.Info().Caches && s.RouterConfig == nil {
		config := router.DefaultConfig()
		r.RouterConfig = &config
	}
	return r
}
