package policy

import (
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// leastLoaded chooses the worker with the lowest load, the first by name among equals.
type leastLoaded struct{ needs router.Needs }

func newLeastLoaded(o Options) (router.Policy, error) { return &leastLoaded{loadNeeds(o)}, nil }

func (p *leastLoaded) Needs() router.Needs { return p.needs }

func (p *leastLoaded) Choose(_ *sim.Request, c *router.Candidates) router.Choice {
	return router.Choice{Worker: findLightest(c), Second: router.None}
}

// findLightest returns the worker with the lowest load.
func findLightest(c *router.Candidates) sim.WorkerID {
	best := c.Workers[0]
	for _, w := range c.Workers[1:] {
		if isLighter(c, w, best) {
			best = w
		}
	}
	return best
}

// isLighter reports whether a has a lower load than b: fewer requests, or equally many and fewer prompt tokens to
// compute.
func isLighter(c *router.Candidates, a, b sim.WorkerID) bool {
	if c.Running[a] != c.Running[b] {
		return c.Running[a] < c.Running[b]
	}
	return c.Tokens[a] < c.Tokens[b]
}

// loadNeeds returns the facts that isLighter reads. Decode workers compute no prompts, and their router does not
// learn of first tokens.
func loadNeeds(o Options) router.Needs {
	return router.Needs{Running: true, Tokens: o.work() != scheduler.Decode}
}
