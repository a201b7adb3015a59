package policy

import (
	"math/rand/v2"
	"slices"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// cacheAware is the policy cache_aware of vllm-router, sglang-router and smg. cacheAware keeps a radix tree of the
// prompts that it has sent, and sends a prompt to a worker that got most of it before. cacheAware receives no cache
// events. If several workers got the prompt, sglang-router chooses the first of them, and vllm-router and smg the one
// with the fewest requests. A prompt with too little known content goes to the worker with the fewest requests. So do
// all prompts while the loads of the workers differ too much.
type cacheAware struct {
	settings    GatewaySettings
	tree        *prompt.Tree
	blockTokens int64
	sent        *radix
	members     []sim.WorkerID // candidates at the latest choice
	evictions   int64          // number of eviction intervals that have ended
	runs        []run          // the current prompt

	rand  *rand.Rand // only for smg
	among func([]sim.WorkerID) sim.WorkerID
	equal []sim.WorkerID // scratch: equal candidates
}

func newCacheAware(o Options) (router.Policy, error) {
	p := &cacheAware{settings: o.gateway("cache_aware"), tree: o.Tree, blockTokens: int64(o.BlockTokens)}
	p.sent = makeRadix(p.settings.Gateway != VLLMRouter)
	if p.among = o.Among; p.settings.Gateway == SMG {
		p.rand = newRand(o)
	}
	return p, nil
}

func (p *cacheAware) Needs() router.Needs { return router.Needs{Running: true} }

func (p *cacheAware) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	p.follow(c.Workers)
	p.evict(c.Now)
	p.runs = appendRuns(p.runs[:0], p.tree, &q.Prompt)
	w, keeps := p.choose(q, c)
	if keeps && len(p.runs) > 0 {
		p.sent.insert(p.runs, w)
	}
	return router.Choice{Worker: w, Second: router.None}
}

// choose returns the worker, and whether the prompt is added to the tree.
func (p *cacheAware) choose(q *sim.Request, c *router.Candidates) (w sim.WorkerID, keeps bool) {
	if p.settings.Gateway == SMG {
		return p.chooseOrSpill(q, c), true
	}
	if p.isUneven(c) {
		return fewestRequests(c), true
	}
	node, rate := p.matchRate(q)
	if !(rate > float32(p.settings.CacheThreshold)) {
		return fewestRequests(c), true
	}
	n := &p.sent.nodes[node]
	switch {
	case len(n.holders) == 0:
		return c.Workers[0], false
	case p.settings.Gateway == VLLMRouter:
		return n.leastHolder(c), true
	case n.owner == router.None:
		n.owner = p.takeHolder(n)
	}
	return n.owner, true
}

// takeHolder returns the new owner of a node without an owner. The new owner is the holder with the lowest id, or the
// choice of among.
func (p *cacheAware) takeHolder(n *radixNode) sim.WorkerID {
	p.equal = p.equal[:0]
	for _, h := range n.holders {
		p.equal = append(p.equal, h.worker)
	}
	slices.Sort(p.equal)
	if p.among != nil {
		return p.among(p.equal)
	}
	return p.equal[0]
}

// matchRate returns the deepest node that the current prompt reaches, and the share of the prompt that is in the
// tree.
func (p *cacheAware) matchRate(q *sim.Request) (node int32, rate float32) {
	node, blocks := p.sent.match(p.runs)
	return node, float32(int64(blocks)*p.blockTokens) / float32(q.InputTokens)
}

// isUneven reports whether the loads of the workers differ by more than both thresholds.
func (p *cacheAware) isUneven(c *router.Candidates) bool {
	least, most := c.Running[c.Workers[0]], c.Running[c.Workers[0]]
	for _, w := range c.Workers[1:] {
		least, most = min(least, c.Running[w]), max(most, c.Running[w])
	}
	return int(most-least) > p.settings.BalanceAbsThreshold &&
		float32(most) > float32(float32(least)*float32(p.settings.BalanceRelThreshold))
}

// fewestRequests returns the worker with the fewest requests, the first among equals.
func fewestRequests(c *router.Candidates) sim.WorkerID {
	best := c.Workers[0]
	for _, w := range c.Workers[1:] {
		if c.Running[w] < c.Running[best] {
			best = w
		}
	}
	return best
}

// leastHolder returns the holder with the fewest requests, the first among equals.
func (n *radixNode) leastHolder(c *router.Candidates) sim.WorkerID {
	best := n.holders[0].worker
	for _, h := range n.holders[1:] {
		if r, least := c.Running[h.worker], c.Running[best]; r < least || r == least && h.worker < best {
			best = h.worker
		}
	}
	return best
}

// follow removes workers that have left from the tree.
func (p *cacheAware) follow(workers []sim.WorkerID) {
	if slices.Equal(workers, p.members) {
		return
	}
	for _, w := range p.members {
		if !slices.Contains(workers, w) {
			p.sent.shrink(w, 0)
		}
	}
	for _, w := range workers {
		if !slices.Contains(p.members, w) {
			p.sent.epoch++ // the gateways insert a worker that joins
		}
	}
	p.members = append(p.members[:0], workers...)
}

// evict shrinks the tree of each worker, at most once per interval.
func (p *cacheAware) evict(now sim.Time) {
	if p.settings.EvictionIntervalSecs == 0 {
		return
	}
	over := int64(float64(now) / (1000 * float64(p.settings.EvictionIntervalSecs)))
	if over <= p.evictions {
		return
	}
	p.evictions = over
	most := p.settings.treeTokens() / p.blockTokens
	if p.settings.Gateway == SMG {
		p.sent.shrinkAll(most)
		return
	}
	for w := range p.sent.sizes {
		p.sent.shrink(sim.WorkerID(w), most)
	}
}

// vllm-router keeps a prompt as text: six characters, then eight hexadecimal digits for each token.
const (
	headOfTokens  = 6
	charsPerToken = 8
)

// treeTokens returns the number of tokens that an eviction keeps in the tree.
func (s *GatewaySettings) treeTokens() int64 {
	if s.Gateway == VLLMRouter {
		return int64(max(0, s.MaxTreeSize-headOfTokens) / charsPerToken)
	}
	return int64(s.MaxTreeSize)
}
