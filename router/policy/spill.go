package policy

import (
	"math"
	"math/rand/v2"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// chooseOrSpill returns the worker by the rules of smg. The result is the holder of the deepest node with the fewest
// requests, unless all holders are too far above the mean number of requests. In that case, or if too little of a
// prompt is known, the result is the worker with the fewest requests. chooseOrSpill draws among workers with equally
// many requests.
func (p *cacheAware) chooseOrSpill(q *sim.Request, c *router.Candidates) sim.WorkerID {
	p.equal = p.equal[:0]
	limit := p.spillLimit(c)
	node, rate := p.matchRate(q)
	holders := p.sent.nodes[node].holders
	if !(rate > float32(p.settings.CacheThreshold)) {
		holders = nil
	}
	for _, w := range c.Workers {
		if p.sent.isHeld(holders, w) && float64(c.Running[w]) <= limit {
			p.equal = append(p.equal, w)
		}
	}
	if len(p.equal) == 0 && len(holders) > 0 {
		for _, w := range c.Workers {
			if float64(c.Running[w]) <= limit {
				p.equal = append(p.equal, w)
			}
		}
	}
	if len(p.equal) == 0 {
		p.equal = append(p.equal, c.Workers...)
	}
	return p.takeLeast(c)
}

// smallestSwing is the smallest number of requests above the mean at which smg chooses another worker.
const smallestSwing = 4

// spillLimit returns the maximum number of requests of a holder that is still chosen. The result is the larger of
// both thresholds. The absolute threshold is limited to two standard deviations of a Poisson distribution with the
// mean number of requests per worker.
func (p *cacheAware) spillLimit(c *router.Candidates) float64 {
	total := 0
	for _, w := range c.Workers {
		total += int(c.Running[w])
	}
	mean := float64(total) / float64(len(c.Workers))
	swing := max(smallestSwing, math.Ceil(2*math.Sqrt(mean)))
	return max(float64(mean*float64(float32(p.settings.BalanceRelThreshold))), mean+min(float64(p.settings.BalanceAbsThreshold), swing))
}

// takeLeast returns the worker of p.equal with the fewest requests. takeLeast draws one worker if several have the
// fewest requests.
func (p *cacheAware) takeLeast(c *router.Candidates) sim.WorkerID {
	least := c.Running[p.equal[0]]
	for _, w := range p.equal[1:] {
		least = min(least, c.Running[w])
	}
	kept := p.equal[:0]
	for _, w := range p.equal {
		if c.Running[w] == least {
			kept = append(kept, w)
		}
	}
	p.equal = kept
	return drawOne(kept, p.rand, p.among)
}

// drawOne draws one of several workers, with among if it is not nil.
func drawOne(workers []sim.WorkerID, rand *rand.Rand, among func([]sim.WorkerID) sim.WorkerID) sim.WorkerID {
	switch {
	case len(workers) == 1:
		return workers[0]
	case among != nil:
		return among(workers)
	}
	return workers[rand.IntN(len(workers))]
}
