package silicon

import "github.com/replay-llm/replay/scheduler/optables"

// Linear layers have a state for each sequence. A product computes queries, keys, values and a gate, a convolution
// mixes neighboring tokens, a rule updates the state, and a product computes the output.

// projectStates adds the products of linear layers.
func (c *Composer) projectStates(p *parts, x int) {
	l := c.fit.Model.Linear
	if l == nil {
		return
	}
	layers, hidden := float64(l.Layers), c.fit.Model.Hidden
	c.gemm(p, x, product{"to linear attention", layers, c.attention, l.InputWidth() / c.tp, hidden})
	c.gemm(p, x, product{"gates of linear attention", layers, "bfloat16", 2 * l.ValueHeads / c.tp, hidden})
	c.extra(p, "split of queries, keys, values and gates", layers, 4*float64(x)*float64(l.InputWidth()/c.tp))
	c.extra(p, "norm and gate of linear attention", layers, 6*float64(x)*float64(l.ValueWidth()/c.tp))
	c.gemm(p, x, product{"output of linear attention", layers, c.attention, hidden, l.ValueWidth() / c.tp})
}

// linear returns linear attention on a GPU.
func (c *Composer) linear() optables.Linear {
	l := c.fit.Model.Linear
	return optables.Linear{Kind: l.Kind, KeyHeads: l.KeyHeads / c.tp, ValueHeads: l.ValueHeads / c.tp}
}

// decodeStates adds the kernels of linear layers for requests that compute one token each.
func (c *Composer) decodeStates(p *parts, requests int) {
	if l := c.fit.Model.Linear; l != nil {
		p.add("convolution of linear attention", float64(l.Layers), c.tables.Linear(c.linear(), optables.Shift, requests, 1))
		p.add("linear attention of decoding", float64(l.Layers), c.tables.Linear(c.linear(), optables.Recur, requests, 1))
	}
}

// scanStates adds the kernels of linear layers for prompts that compute the given number of tokens each.
func (c *Composer) scanStates(p *parts, requests, tokens int) {
	if l := c.fit.Model.Linear; l != nil {
		p.add("convolution of linear attention", float64(l.Layers), c.tables.Linear(c.linear(), optables.Convolve, requests, tokens))
		p.add("linear attention of prompts", float64(l.Layers), c.tables.Linear(c.linear(), optables.Scan, requests, tokens))
	}
}
