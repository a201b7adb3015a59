package policy

import (
	"math/rand/v2"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// random chooses a worker with equal probabilities.
type random struct{ rand *rand.Rand }

func newRandom(o Options) (router.Policy, error) { return &random{newRand(o)}, nil }

func (p *random) Needs() router.Needs { return router.Needs{} }

func (p *random) Choose(_ *sim.Request, c *router.Candidates) router.Choice {
	return router.Choice{Worker: c.Workers[p.rand.IntN(len(c.Workers))], Second: router.None}
}
