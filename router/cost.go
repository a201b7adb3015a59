package router

import (
	"github.com/replay-llm/replay/sim"
)

// job is a request as the cost function sees it.
type job struct {
	tokens int64 // prompt length
	blocks int64 // full prompt blocks, 0 when active blocks are not counted
}

// choice is the outcome of a selection.
type choice struct {
	worker, second   sim.WorkerID
	cost, secondCost float64
}

// state is what the cost of a job on a worker depends on.
type state struct {
	tokens  int64 // prompt tokens still to compute
	blocks  int64 // active blocks
	overlap int32 // blocks of the job that are cached
	depth   int32 // blocks of the job that are active
}

// cost is what a job costs on a worker.
func (r *KV) cost(j job, x state) float64 { return r.config.cost(r.blockTokens, j, x) }

// cost is what a job costs on a worker: the prompt tokens it would have to
// compute, less a credit for those it has cached, in blocks, plus the blocks its
// requests would hold.
func (c *Config) cost(blockTokens int64, j job, x state) float64 {
	cached := int64(x.overlap) * blockTokens
	raw := x.tokens + max(j.tokens-cached, 0) + cached
	if !c.TrackPrefillTokens {
		raw = 0
	}
	adjusted := float64(raw)/float64(blockTokens) - float64(c.OverlapScoreCredit*float64(x.overlap))
	if adjusted < 0 {
		adjusted = 0
	}
	active := x.blocks + j.blocks - int64(x.depth)
	return float64(c.PrefillLoadScale*adjusted) + float64(active)
}

// state is that of w for the job in hand.
func (r *KV) state(w sim.WorkerID, tokens []int64) state {
	return state{tokens: tokens[w], blocks: r.loads.blocks[w], overlap: r.overlap.by[w], depth: r.depth.by[w]}
}

// cheapest is the candidate of least cost, the lowest id among equals. There is
// at least one. Of many workers most are idle or alike, so that few costs are
// worked out.
func (r *KV) cheapest(j job, tokens []int64) choice {
	ids := r.workers.ids
	x := r.state(ids[0], tokens)
	cost := r.cost(j, x)
	c := choice{worker: ids[0], cost: cost, second: None}
	n := len(tokens) // of all four: one check of w's bounds is enough
	blocks, overlap, depth := r.loads.blocks[:n], r.overlap.by[:n], r.depth.by[:n]
	for _, w := range ids[1:] {
		if tokens[w] != x.tokens || blocks[w] != x.blocks || overlap[w] != x.overlap || depth[w] != x.depth {
			x = state{tokens: tokens[w], blocks: blocks[w], overlap: overlap[w], depth: depth[w]}
			cost = r.cost(j, x)
		} else if c.second != None && c.secondCost <= cost {
			continue // as the one before, which changed nothing
		}
		switch {
		case cost < c.cost:
			c = choice{worker: w, cost: cost, second: c.worker, secondCost: c.cost}
		case c.second == None || cost < c.secondCost:
			c.second, c.secondCost = w, cost
		}
	}
	return c
}

// drawn is a candidate drawn at random, the likelier the cheaper: costs are
// spread over the range 0 to 1 and weighed by exp(-cost/temperature).
func (r *KV) drawn(j job, tokens []int64) choice {
	for i, w := range r.workers.ids {
		r.costs[i] = r.cost(j, r.state(w, tokens))
	}
	p := r.odds[:len(r.costs)]
	sum := odds(r.costs, r.config.Temperature, p)
	best := pick(p, sum, r.rand.Float64())
	second := -1
	for i, c := range r.costs {
		if i != best && (second < 0 || c < r.costs[second]) {
			second = i
		}
	}
	return r.chosen(best, second)
}

// odds fills p with what each cost is worth in a draw, and returns the sum.
func odds(costs []float64, temperature float64, p []float64) (sum float64) {
	lo, hi := costs[0], costs[0]
	for _, c := range costs {
		lo, hi = min(lo, c), max(hi, c)
	}
	if lo == hi {
		for i := range p {
			p[i] = 1 / float64(len(p))
			sum += p[i]
		}
		return sum
	}
	scale := -1 / float64((hi-lo)*temperature)
	m := float64(lo * scale)
	for i, c := range costs {
		p[i] = exp(float64(c*scale) - m)
		sum += p[i]
	}
	return sum
}

func (r *KV) chosen(best, second int) choice {
	c := choice{worker: r.workers.ids[best], cost: r.costs[best], second: None}
	if second >= 0 {
		c.second, c.secondCost = r.workers.ids[second], r.costs[second]
	}
	return c
}

// pick is the first index at which the running sum of p, made to add up to 1,
// reaches u; the last one if none does.
func pick(p []float64, sum, u float64) int {
	total := 0.0
	for i, x := range p {
		if total += x / sum; u <= total {
			return i
		}
	}
	return len(p) - 1
}
