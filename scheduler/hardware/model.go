package hardware

import "strings"

// Model is the shape of a language model from its config.json.
type Model struct {
	Name   string
	Source string // URL of the published configuration
	Family string // model_type of the configuration

	Layers, Hidden, Vocab    int
	Heads, KVHeads, HeadSize int
	MLP                      int // width of a dense layer
	Tied                     bool
	Context                  int // longest sequence in tokens
	MoE                      *Experts
	Latent                   *Latent       // multi-head latent attention
	Indexer                  *Indexer      // indexer of sparse attention
	Linear                   *LinearLayers // layers with linear attention
	Gated                    bool          // attention has a gate per query
	// Window layers attend only to the last Window tokens, or to a chunk of Window tokens.
	Window, WindowLayers int
	Chunked              bool
	Rope                 Rope
	FullFirst            bool // the first layer has no window, although other layers do
	// Bits and ExpertBits are the bits of weights of products and of experts; 0 means 16.
	Bits, ExpertBits float64
	// ActivationBits is the bits of activations of a checkpoint with quantized products; 0 means 16.
	ActivationBits float64
	// Blocks reports that 8-bit weights have a scale for each block of 128 by 128, like DeepSeek's.
	Blocks bool
}

// PoolWindow returns the number of tokens that layers with a window attend to, without the computed token, if SGLang
// has a separate pool for these layers of the model. PoolWindow returns 0 for other models: in SGLang, all of their
// layers keep all tokens.
func (m *Model) PoolWindow() int {
	switch {
	case m.WindowLayers == 0 || m.WindowLayers == m.Layers:
	case m.Family == "gpt_oss":
		return m.Window - 1
	case strings.HasPrefix(m.Family, "llama4"):
		return m.Window
	}
	return 0
}

// Experts describes the experts of a model's layers.
type Experts struct {
	Count, PerToken int
	MLP             int // width of an expert
	Shared          int // total width of shared experts, which every token uses; 0: none
	Dense           int // layers with a dense product instead of experts
}

// Latent describes multi-head latent attention: the KV cache has Rank+Rope values per token and layer.
type Latent struct {
	Rank, Rope        int
	Query             int // rank of the query product; 0: full rank
	NoPosition, Value int // values per head
}

// fillBits returns b, or 16 if b is 0.
func fillBits(b float64) float64 {
	if b == 0 {
		return 16
	}
	return b
}

// attentionWeights returns the number of attention weights per layer.
func (m *Model) attentionWeights() float64 {
	h, heads := float64(m.Hidden), float64(m.Heads)
	if l := m.Latent; l != nil {
		perHead := float64(l.NoPosition + l.Rope)
		query := h * heads * perHead
		if l.Query > 0 {
			query = h*float64(l.Query) + float64(l.Query)*heads*perHead
		}
		kv := h*float64(l.Rank+l.Rope) + float64(l.Rank)*heads*float64(l.NoPosition+l.Value)
		all := query + kv + heads*float64(l.Value)*h
		if m.Indexer != nil {
			all += m.Indexer.weights(m)
		}
		return all
	}
	size := float64(m.HeadSize)
	query := heads
	if m.Gated {
		query *= 2
	}
	return h*size*(query+2*float64(m.KVHeads)) + heads*size*h
}

// gatedWeights returns the number of weights of a gated product with the given width.
func (m *Model) gatedWeights(width int) float64 { return 3 * float64(m.Hidden) * float64(width) }

// ExpertLayers returns the number of layers with experts.
func (m *Model) ExpertLayers() int {
	if m.MoE == nil {
		return 0
	}
	return m.Layers - m.MoE.Dense
}

// Shape counts a model's weights by how a pass reads them.
type Shape struct {
	Embedding float64 // one row is read per token
	Head      float64 // the product with the vocabulary
	Attention float64 // read by every pass
	Dense     float64 // weights that every pass reads in addition: dense layers, shared experts, routers
	Experts   float64 // all experts; a pass reads the experts that its tokens are sent to
}

// Shape returns the numbers of weights of m.
func (m *Model) Shape() Shape {
	s := Shape{Embedding: float64(m.Vocab) * float64(m.Hidden)}
	s.Head = s.Embedding
	s.Attention = float64(m.KVLayers()) * m.attentionWeights()
	if l := m.Linear; l != nil {
		s.Attention += float64(l.Layers) * l.weights(m.Hidden)
	}
	s.Dense = float64(m.Layers-m.ExpertLayers()) * m.gatedWeights(m.MLP)
	if e := m.MoE; e != nil {
		n := float64(m.ExpertLayers())
		s.Dense += n * (m.gatedWeights(e.Shared) + float64(m.Hidden*e.Count))
		s.Experts = n * float64(e.Count) * m.gatedWeights(e.MLP)
	}
	return s
}

// Params returns the number of weights.
func (m *Model) Params() float64 {
	s := m.Shape()
	if m.Tied {
		s.Head = 0
	}
	return s.Embedding + s.Head + s.Attention + s.Dense + s.Experts
}

// Active returns the number of weights that are multiplied for one token.
func (m *Model) Active() float64 {
	s := m.Shape()
	if m.MoE != nil {
		s.Experts *= float64(m.MoE.PerToken) / float64(m.MoE.Count)
	}
	return s.Head + s.Attention + s.Dense + s.Experts
}
