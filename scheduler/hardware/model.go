package hardware

import "strings"

// Model is the shape of a language model, as its configuration file has it.
type Model struct {
	Name   string
	Source string // where its configuration is published
	Family string // model_type of the configuration

	Layers, Hidden, Vocab    int
	Heads, KVHeads, HeadSize int
	MLP                      int // width of a dense layer
	Tied                     bool
	Context                  int // longest sequence, tokens
	MoE                      *Experts
	Latent                   *Latent       // multi-head latent attention
	Indexer                  *Indexer      // of sparse attention
	Linear                   *LinearLayers // among the layers
	Gated                    bool          // attention has a gate for each query
	// Window layers keep the last Window tokens alone, or those of a chunk of as many.
	Window, WindowLayers int
	Chunked              bool
	Rope                 Rope
	FullFirst            bool // the first layer has none, though other layers do
	// Weights of products and of experts have that many bits; 0: 16.
	Bits, ExpertBits float64
	// Activation bits of a checkpoint that multiplies narrow numbers; 0: 16.
	ActivationBits float64
	// Blocks reports that weights of 8 bits have a scale for each block of 128 by 128, as DeepSeek's.
	Blocks bool
}

// PoolWindow returns the tokens that layers with a window attend to, besides the computed one, if SGLang keeps them in a separate
// pool for the model. It returns 0 for all other models: all of their layers keep all tokens there.
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

// Experts are the experts of a model's layers.
type Experts struct {
	Count, PerToken int
	MLP             int // width of an expert
	Shared          int // width of all that every token takes, 0: none
	Dense           int // layers that have a dense product instead of experts
}

// Latent is multi-head latent attention: a token keeps Rank+Rope values per layer.
type Latent struct {
	Rank, Rope        int
	Query             int // rank of the queries' product, 0: full
	NoPosition, Value int // values per head
}

// fillBits returns b, or 16 where nothing is said.
func fillBits(b float64) float64 {
	if b == 0 {
		return 16
	}
	return b
}

// attentionWeights returns the weights of attention, per layer.
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

// gatedWeights returns the weights of a gated product of that width.
func (m *Model) gatedWeights(width int) float64 { return 3 * float64(m.Hidden) * float64(width) }

// ExpertLayers returns the layers that have experts.
func (m *Model) ExpertLayers() int {
	if m.MoE == nil {
		return 0
	}
	return m.Layers - m.MoE.Dense
}

// Shape counts a model's weights by how a pass reads them.
type Shape struct {
	Embedding float64 // read a row a token
	Head      float64 // the product with the vocabulary
	Attention float64 // read by every pass
	Dense     float64 // too: dense layers, shared experts, routers
	Experts   float64 // all experts; a pass reads those its tokens are sent to
}

// Shape returns the weights of m.
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

// Active returns the weights that one token is multiplied with.
func (m *Model) Active() float64 {
	s := m.Shape()
	if m.MoE != nil {
		s.Experts *= float64(m.MoE.PerToken) / float64(m.MoE.Count)
	}
	return s.Head + s.Attention + s.Dense + s.Experts
}
