package policy

import (
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// roundRobin chooses the workers in turn, by ascending name.
type roundRobin struct {
	next int // without a modulo, because the number of workers may change
}

func newRoundRobin(Options) (router.Policy, error) { return &roundRobin{}, nil }

func (p *roundRobin) Needs() router.Needs { return router.Needs{} }

func (p *roundRobin) Choose(_ *sim.Request, c *router.Candidates) router.Choice {
	i := p.next % len(c.Workers)
	p.next = i + 1
	return router.Choice{Worker: c.Workers[i], Second: router.None}
}
