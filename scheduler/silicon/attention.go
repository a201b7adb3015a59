package silicon

import (
	"strings"

	"github.com/replay-llm/replay/scheduler/optables"
)

// Decode returns the operators of attention for requests that compute one token each. The mean length of their KV
// caches is length, including the computed token.
func (c *Composer) Decode(requests, length int) []Part {
	p, m := parts{}, &c.fit.Model
	if pp := c.fit.PP; pp > 1 {
		requests = (requests + pp - 1) / pp
	}
	c.decodeStates(&p, requests)
	switch {
	case m.Indexer != nil:
		c.decodeSparse(&p, requests, length)
		return p
	case m.Latent != nil:
		c.decodeLatent(&p, requests, length)
		return p
	}
	for _, k := range c.kinds() {
		p.add("attention of decoding"+k.note, k.layers, c.tables.Generation(k.Attention, requests, length))
	}
	return p
}

// Prompts returns the operators of attention for prompts that compute the given number of tokens each, after past
// tokens each.
func (c *Composer) Prompts(requests, tokens, past int) []Part {
	p := parts{}
	c.scanStates(&p, requests, tokens)
	switch {
	case c.fit.Model.Indexer != nil:
		c.promptSparse(&p, requests, tokens, past)
		return p
	case c.fit.Model.Latent != nil:
		c.promptLatent(&p, requests, tokens, past)
		return p
	}
	for _, k := range c.kinds() {
		whole := c.tables.Context(k.Attention, requests, tokens+past, 0)
		whole.Ms *= k.share(tokens, past)
		p.add("attention of prompts"+k.note, k.layers, whole)
	}
	return append(p, c.Rotation()...)
}

// Rotation returns the operators that rotate queries and keys of prompts and write the KV cache. Each operator is
// launched once per pass, for any prompt, and its bytes are counted for one token.
func (c *Composer) Rotation() []Part {
	p, m := parts{}, &c.fit.Model
	if m.Latent != nil {
		return p
	}
	q, kv := float64(2*c.query), float64(2*c.keys)
	c.small(&p, "rotation", 2.2*c.full, q+kv)
	c.small(&p, "cache writes", 2.2*c.full, kv)
	if hasHeadNorms(m.Family) {
		c.small(&p, "norms of queries", 4.4*c.full, q)
		c.small(&p, "norms of keys", 4.4*c.full, kv)
	}
	return p
}

// hasHeadNorms reports whether a model family normalizes queries and keys per head.
func hasHeadNorms(family string) bool {
	return strings.HasPrefix(family, "qwen3") || strings.HasPrefix(family, "gemma3") || strings.HasPrefix(family, "minimax")
}

// normsAllHeads reports whether a model family normalizes the queries of all heads together, and also the keys. GPUs
// that share the heads must then add up their sums of squares.
func normsAllHeads(family string) bool { return strings.HasPrefix(family, "minimax") }

// kind is a group of layers with the same attention.
type kind struct {
	optables.Attention
	layers float64
	note   string
}

// kinds returns the groups of the model's layers by attention.
func (c *Composer) kinds() []kind {
	m := &c.fit.Model
	full := kind{Attention: optables.Attention{Heads: m.Heads / c.tp, KVHeads: c.kvHeads(), HeadSize: m.HeadSize, KV: c.kv}, layers: c.full}
	if m.WindowLayers == 0 {
		return []kind{full}
	}
	windowed := full
	windowed.layers, windowed.note, windowed.Window = float64(m.WindowLayers), " in windows", m.Window
	if full.layers -= windowed.layers; full.layers == 0 {
		return []kind{windowed}
	}
	return []kind{full, windowed}
}

// share returns the share of the last tokens of a prompt in all pairs of tokens of the prompt.
func (k *kind) share(tokens, past int) float64 {
	return shareOf(float64(tokens), float64(past), float64(k.Window))
}

// shareOf returns the share of new tokens, after past tokens, in the pairs of all tokens. Each token attends to
// itself and to preceding tokens within the window; a window of 0 means all preceding tokens.
func shareOf(tokens, past, window float64) float64 {
	return 1 - pairsOf(past, window)/pairsOf(tokens+past, window)
}

// pairsOf returns the number of pairs of tokens of a prompt, with each token attending to its window.
func pairsOf(length, window float64) float64 {
	if window == 0 || length <= window {
		return float64(length*length) / 2
	}
	return float64(window*window)/2 + float64((length-window)*window)
}

// latent returns the kernel of latent attention. The tables list it for the 128 heads of DeepSeek, also for models
// with 64 heads.
func (c *Composer) latent() optables.Latent {
	heads := c.fit.Model.Heads
	if heads >= 64 {
		heads = 128
	}
	kernel := "bfloat16"
	if c.kv == "fp8" {
		kernel = "fp8"
	}
	return optables.Latent{Heads: heads / c.tp, Type: kernel, KV: c.kv, GEMM: c.attention}
}

// module returns the block of latent attention that was measured as one unit.
func (c *Composer) module() optables.Latent {
	l := c.latent()
	l.Heads = c.fit.Model.Heads / c.tp
	return l
}

// decodeLatent adds the latent attention of decoding: the sum of its operators or the time of the block measured as
// one unit, whichever is less.
func (c *Composer) decodeLatent(p *parts, requests, length int) {
	var own parts
	product := "bfloat16"
	if strings.HasPrefix(c.attention, "fp8") {
		product = "fp8"
	}
	heads := c.fit.Model.Heads / c.tp
	own.add("absorbed key", c.full, c.tables.LatentProduct(product, false, requests, heads))
	own.add("attention of decoding", c.full, c.tables.LatentGeneration(c.latent(), requests, length))
	own.add("absorbed value", c.full, c.tables.LatentProduct(product, true, requests, heads))
	block, ok := c.tables.LatentModule(c.module(), false, requests, length, 0)
	c.addFaster(p, own, block, ok, requests)
}

// promptLatent adds the latent attention of prompts like decodeLatent.
func (c *Composer) promptLatent(p *parts, requests, tokens, past int) {
	var own parts
	m, l := &c.fit.Model, c.fit.Model.Latent
	c.gemm(&own, requests*tokens, product{"key and value of the latent", c.full, c.attention, m.Heads * (l.NoPosition + l.Value) / c.tp, l.Rank})
	own.add("attention of prompts", c.full, c.tables.LatentContext(c.latent(), requests, tokens, past))
	block, ok := c.tables.LatentModule(c.module(), true, requests, tokens, past)
	c.addFaster(p, own, block, ok, requests*tokens)
}

// addFaster adds the operators own, or the time of the measured block if it is less. The block's time is reduced by
// its projections, because Linear includes them.
func (c *Composer) addFaster(p *parts, own parts, block optables.Time, ok bool, tokens int) {
	if ok && !c.granular {
		var around parts
		c.projectLatent(&around, tokens)
		if block.Ms -= Sum(around) / c.full; c.full*block.Ms < Sum(own) {
			p.add("attention block without its projections", c.full, block)
			return
		}
	}
	*p = append(*p, own...)
}
