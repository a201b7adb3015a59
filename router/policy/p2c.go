package policy

import (
	"math/rand/v2"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// twoChoices chooses the less loaded of two random workers (the power of two choices). twoChoices balances almost as
// well as leastLoaded, and several routers do not all choose the same worker.
type twoChoices struct {
	needs router.Needs
	rand  *rand.Rand
}

func newTwoChoices(o Options) (router.Policy, error) {
	return &twoChoices{loadNeeds(o), newRand(o)}, nil
}

func (p *twoChoices) Needs() router.Needs { return p.needs }

func (p *twoChoices) Choose(_ *sim.Request, c *router.Candidates) router.Choice {
	n := len(c.Workers)
	if n == 1 {
		return router.Choice{Worker: c.Workers[0], Second: router.None}
	}
	i, k := p.rand.IntN(n), p.rand.IntN(n-1)
	if k >= i {
		k++ // a second worker, different from the first
	}
	best, second := c.Workers[i], c.Workers[k]
	if isLighter(c, second, best) {
		best = second
	}
	return router.Choice{Worker: best, Second: router.None}
}
