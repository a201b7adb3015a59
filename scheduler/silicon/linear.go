package silicon

// Linear returns the operators of a pass of x tokens except attention and the product with the vocabulary. prompts
// tells whether the pass also computes prompts: shared experts then run after the routed experts.
//
// Pipeline parallelism is assumed to keep all stages busy, with one batch per stage: each layer computes 1/PP of the
// tokens.
func (c *Composer) Linear(x int, prompts bool) []Part {
	m, p := &c.fit.Model, parts{}
	if pp := c.fit.PP; pp > 1 {
		x = (x + pp - 1) / pp
		p = append(p, Part{"hops between stages", float64(pp - 1), c.hop(x), true})
	}
	width, hidden := float64(x)*float64(m.Hidden), m.Hidden
	c.small(&p, "embedding", 1, 2*width)
	c.reduce(&p, "all-reduce of the embedding", 1, x)
	c.small(&p, "norms", 2*c.layers, 8*width)
	if m.Latent != nil {
		c.projectLatent(&p, x)
	} else {
		query := c.query
		if m.Gated {
			query *= 2
		}
		c.gemm(&p, x, product{"query, key and value", c.full, c.attention, query + 2*c.keys, hidden})
		if m.Gated {
			c.extra(&p, "gate of attention", c.full, 6*float64(x)*float64(c.query))
		}
		c.gemm(&p, x, product{"output of attention", c.full, c.attention, hidden, c.query})
	}
	c.projectStates(&p, x)
	if normsAllHeads(m.Family) && c.tp > 1 {
		c.small(&p, "sums of squares of queries and keys", c.layers, 2*float64(x)*float64(c.query+c.keys))
		p.add("all-reduce of these sums", c.layers, c.tables.AllReduce(c.engine, c.tp, sumValues*float64(x)))
	}
	dense := c.layers
	if m.MoE != nil {
		dense -= c.expertLayers
		c.addExperts(&p, x, prompts)
	}
	c.reduce(&p, "all-reduce", 2*dense, x)
	c.gated(&p, dense, x, m.MLP)
	return p
}

// sumValues is the size, in 2-byte values, of the sums of squares of a token's queries and keys in an all-reduce: two
// values of 4 bytes.
const sumValues = 4

// gated adds gated products of the given width, split over the GPUs of a rank.
func (c *Composer) gated(p *parts, calls float64, x, width int) {
	if calls == 0 || width == 0 {
		return
	}
	hidden := c.fit.Model.Hidden
	c.gemm(p, x, product{"gate and up", calls, c.dense, 2 * width / c.tp, hidden})
	c.small(p, "activation", calls, 2*float64(x)*float64(3*width/c.tp))
	c.gemm(p, x, product{"down", calls, c.dense, hidden, width / c.tp})
}

// projectLatent adds the products before and after latent attention.
func (c *Composer) projectLatent(p *parts, x int) {
	m, l := &c.fit.Model, c.fit.Model.Latent
	query := m.Heads * (l.NoPosition + l.Rope) / c.tp
	if l.Query > 0 {
		c.gemm(p, x, product{"to latent query, key and value", c.full, c.attention, l.Query + l.Rank + l.Rope, m.Hidden})
		c.gemm(p, x, product{"query of the latent", c.full, c.attention, query, l.Query})
	} else {
		c.gemm(p, x, product{"query, latent key and value", c.full, c.attention, query + l.Rank + l.Rope, m.Hidden})
	}
	c.gemm(p, x, product{"output of attention", c.full, c.attention, m.Hidden, m.Heads * l.Value / c.tp})
}

// Head returns the product with the vocabulary for the requests of a pass.
func (c *Composer) Head(requests int) []Part {
	m, p := &c.fit.Model, parts{}
	if pp := c.fit.PP; pp > 1 {
		requests = (requests + pp - 1) / pp
	}
	c.gemm(&p, requests, product{"vocabulary", 1, "bfloat16", m.Vocab / c.tp, m.Hidden})
	return p
}
