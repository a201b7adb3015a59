package engines

import (
	"errors"
	"fmt"

	"github.com/replay-llm/replay/replay/engineargs"
)

// Given is what a command line says of the pools of a cluster.
type Given struct {
	Workers, PrefillWorkers, DecodeWorkers int              // 1 where it says nothing
	Engine, Prefill, Decode                *engineargs.Args // nil where it says nothing
}

// Pools returns the pools that g stands for. It refuses what leaves open which
// cluster is meant.
func (g *Given) Pools() ([]Pool, error) {
	for _, c := range []struct {
		name  string
		count int
	}{{"workers", g.Workers}, {"prefill workers", g.PrefillWorkers}, {"decode workers", g.DecodeWorkers}} {
		if c.count < 0 || c.count > maxWorkers {
			return nil, fmt.Errorf("%s are %d, want 1 to %d", c.name, c.count, maxWorkers)
		}
	}
	prefill, decode := g.Prefill != nil, g.Decode != nil
	switch {
	case g.Engine != nil && (prefill || decode):
		return nil, errors.New("engine arguments are for one pool, and there are prefill or decode engine arguments too, want one or the other")
	case !prefill && !decode && (g.PrefillWorkers != 1 || g.DecodeWorkers != 1):
		return nil, fmt.Errorf("%d prefill and %d decode workers without engine arguments of their own, want both prefill and decode engine arguments",
			g.PrefillWorkers, g.DecodeWorkers)
	case prefill && decode && g.Workers != 1:
		return nil, fmt.Errorf("workers are %d beside prefill and decode engine arguments, want numbers of prefill and decode workers only", g.Workers)
	case !prefill && decode:
		return nil, errors.New("decode engine arguments without prefill engine arguments, want both")
	case prefill && !decode:
		return nil, errors.New("prefill engine arguments without decode engine arguments, want both")
	case prefill:
		return TwoPools(Pool{Engine: *g.Prefill, Count: g.PrefillWorkers}, Pool{Engine: *g.Decode, Count: g.DecodeWorkers}), nil
	case g.Engine != nil:
		return OnePool(*g.Engine, g.Workers), nil
	}
	return OnePool(engineargs.Default(), g.Workers), nil
}
