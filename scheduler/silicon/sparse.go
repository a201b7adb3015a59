package silicon

import "github.com/replay-llm/replay/scheduler/optables"

// architectureOf returns the name in the tables for a model family with sparse attention.
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

// decodeSparse adds the sparse attention of decoding without its projections, which Linear includes.
func (c *Composer) decodeSparse(p *parts, requests, length int) {
	c.addBlock(p, "attention block of decoding without its projections", c.tables.SparseGeneration(c.sparse(), requests, length), requests)
}

// promptSparse adds the time of whole prompts, and the additional time of prompts with past tokens.
func (c *Composer) promptSparse(p *parts, requests, tokens, past int) {
	c.addBlock(p, "attention block of prompts without its projections", c.tables.SparseContext(c.sparse(), requests, tokens), requests*tokens)
	if past > 0 {
		p.add("attention to the past", c.full*float64(requests), c.tables.SparsePast(c.sparse(), tokens, past))
	}
}

// addBlock adds the time of a block that was measured as one unit, without the time of its projections.
func (c *Composer) addBlock(p *parts, name string, block optables.Time, tokens int) {
	var around parts
	c.projectLatent(&around, tokens)
	block.Ms -= Sum(around) / c.full
	p.add(name, c.full, block)
}
