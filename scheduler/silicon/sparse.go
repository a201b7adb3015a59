package silicon

import "github.com/replay-llm/replay/scheduler/optables"

// architectureOf returns the name in the tables of a family with sparse attention.
func architectureOf(family string) string {
	if family == "glm_moe_dsa" {
		return "GlmMoeDsaForCausalLM"
	}
	return "DeepseekV32ForCausalLM"
}

// sparse returns the block of sparse attention on a GPU.
func (c *Composer) sparse() optables.Sparse {
	m := &c.fit.Model
	return optables.Sparse{Architecture: architectureOf(m.Family), Heads: m.Heads / c.tp, KV: c.kv, GEMM: c.attention}
}

// decodeSparse adds sparse attention of decoding without its projections, which Linear has.
func (c *Composer) decodeSparse(p *parts, requests, length int) {
	c.addBlock(p, "attention block of decoding without its projections", c.tables.SparseGeneration(c.sparse(), requests, length), requests)
}

// promptSparse adds the time of prompts: of whole prompts, and the additional time of prompts after a past.
func (c *Composer) promptSparse(p *parts, requests, tokens, past int) {
	c.addBlock(p, "attention block of prompts without its projections", c.tables.SparseContext(c.sparse(), requests, tokens), requests*tokens)
	if past > 0 {
		p.add("attention to the past", c.full*float64(requests), c.tables.SparsePast(c.sparse(), tokens, past))
	}
}

// addBlock adds the time of a block that was measured as a whole, without the projections of its tokens.
func (c *Composer) addBlock(p *parts, name string, block optables.Time, tokens int) {
	var around parts
	c.projectLatent(&around, tokens)
	block.Ms -= Sum(around) / c.full
	p.add(name, c.full, block)
}
