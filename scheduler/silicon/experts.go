package silicon

import "github.com/replay-llm/replay/scheduler/optables"

// How unevenly tokens fall on experts, as the tables name it.
const (
	unevenly = "power_law_1.2"
	evenly   = "power_law_1.01" // of models with latent attention, trained for balance
)

// addExperts adds the layers of experts: the router, sending tokens to where their experts are, the experts, and sending
// back. In a pass that only decodes, shared experts run at the same time on a second stream.
func (c *Composer) addExperts(p *parts, x int, prompts bool) {
	m, e := &c.fit.Model, c.fit.Model.MoE
	spread := unevenly
	if m.Latent != nil {
		spread = evenly
	}
	var routed, shared parts
	c.gemm(&routed, x, product{"router", c.expertLayers, "bfloat16", e.Count, m.Hidden})
	c.dispatch(&routed, x)
	routed.add("experts", c.expertLayers, c.expertTime(optables.Experts{
		Hidden: m.Hidden, Inter: e.MLP, PerToken: e.PerToken, Count: e.Count, TP: c.expertTP, EP: c.expertEP, Distribution: spread,
	}, x*c.ranks))
	c.gated(&shared, c.expertLayers, x, e.Shared)
	switch hidden := Sum(shared); {
	case prompts || len(shared) == 0:
		*p = append(append(*p, routed...), shared...)
	case hidden > Sum(routed):
		*p = append(*p, shared...)
	default:
		*p = append(*p, routed...)
	}
}

// slowKernel is by how much an engine's kernel of experts may be slower than another engine's before it counts as one that
// is not served: releases take over the kernels of other engines.
const slowKernel = 1.25

// expertTime returns the time of a layer of experts for that many tokens: the engine's own, unless another engine's is much less.
func (c *Composer) expertTime(x optables.Experts, tokens int) optables.Time {
	x.Type = c.expertTypes[0]
	own := c.tables.Experts(c.engine, x, tokens)
	least := own
	for _, x.Type = range c.expertTypes {
		for _, e := range []optables.Engine{optables.VLLM, optables.SGLang, optables.TRTLLM} {
			if t := c.tables.Experts(e, x, tokens); t.Ms < least.Ms && t.Source == optables.Measured {
				least = t
			}
		}
	}
	if own.Source == optables.Measured && own.Ms <= slowKernel*least.Ms {
		return own
	}
	return least
}

// dispatch adds what sends tokens to their experts and back.
func (c *Composer) dispatch(p *parts, x int) {
	if c.ranks == 1 {
		c.reduce(p, "all-reduce around experts", 2*c.expertLayers, x)
		return
	}
	gpus, own := c.tp*c.ranks, float64(x*c.fit.Model.Hidden)
	all := own * float64(c.ranks)
	p.add("gathering tokens for experts", c.expertLayers, c.tables.Collective("all_gather", gpus, all))
	p.add("scattering sums of experts", c.expertLayers, c.tables.Collective("reduce_scatter", gpus, all))
	switch {
	case c.tp == 1:
	case c.engine == optables.SGLang:
		p.add("scattering within a rank", c.expertLayers, c.tables.Collective("reduce_scatter", c.tp, own))
		p.add("gathering within a rank", c.expertLayers, c.tables.Collective("all_gather", c.tp, own))
	default:
		c.reduce(p, "all-reduce within a rank", c.expertLayers, x)
	}
}

// hop returns the time of passing x tokens to the next stage.
func (c *Composer) hop(x int) optables.Time {
	return optables.Time{Ms: c.sheet.Hop(2 * float64(x) * float64(c.fit.Model.Hidden))}
}
