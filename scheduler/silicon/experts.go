package silicon

import "github.com/replay-llm/replay/scheduler/optables"

// Names in the tables for the distribution of tokens over experts.
const (
	unevenly = "power_law_1.2"
	evenly   = "power_law_1.01" // distribution for models with latent attention, which are trained for balance
)

// addExperts adds the layers of experts: the router, sending tokens to their experts, the experts, and sending the
// results back. In a pass that only decodes, shared experts run concurrently on a second stream, so that only the
// longer part counts.
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

// slowKernel is the maximum ratio of an engine's measured expert kernel to the fastest engine's. An engine with a
// slower measurement is assumed to use the faster kernel, because releases adopt kernels of other engines.
const slowKernel = 1.25

// expertTime returns the time of a layer of experts for the given number of tokens. The time is that of the engine's
// own kernel, or of the fastest engine's kernel if the own kernel is much slower or not measured.
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

// dispatch adds the collectives that send tokens to their experts and back.
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

// hop returns the time to send x tokens to the next pipeline stage.
func (c *Composer) hop(x int) optables.Time {
	return optables.Time{Ms: c.sheet.Hop(2 * float64(x) * float64(c.fit.Model.Hidden))}
}
