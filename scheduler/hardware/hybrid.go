package hardware

import "math"

// Indexer chooses the tokens that latent attention attends to (DeepSeek sparse attention). It keeps a separate key for each
// token and layer.
type Indexer struct {
	Heads, HeadSize int
	Chosen          int // tokens that are attended to at most
}

// bytes returns the bytes of a token's key: values of 8 bits, and a scale of 4 bytes.
func (x *Indexer) bytes() float64 { return float64(x.HeadSize) + 4 }

// weights returns the weights of the products of queries, keys and the weights of heads.
func (x *Indexer) weights(m *Model) float64 {
	return float64(m.Latent.Query*x.Heads*x.HeadSize) + float64(m.Hidden*x.HeadSize) + float64(m.Hidden*x.Heads)
}

// sparseBytes is the bytes of a token of latent attention with 8 bits and an indexer: 512 values of a byte, 4 scales of
// 4 bytes, and the 64 rotated values in 16 bits.
const sparseBytes = 512 + 4*4 + 2*64

// LinearLayers are layers that keep a state for each sequence instead of keys and values.
type LinearLayers struct {
	Kind                  string // of the rule: gdn
	Layers                int
	KeyHeads, KeySize     int
	ValueHeads, ValueSize int
	Conv                  int // tokens of the convolution in front of the rule
	StateBytes            int // of a value of the rule's state; those of the convolution have 2
}

// width returns the values of a token in the convolution: queries, keys and values.
func (l *LinearLayers) width() int { return 2*l.KeyHeads*l.KeySize + l.ValueHeads*l.ValueSize }

// InputWidth returns the outputs of the product in front of the convolution: queries, keys, values and the gate.
func (l *LinearLayers) InputWidth() int { return l.width() + l.ValueHeads*l.ValueSize }

// ValueWidth returns the values that the rule gives for a token.
func (l *LinearLayers) ValueWidth() int { return l.ValueHeads * l.ValueSize }

// weights returns the weights of a layer.
func (l *LinearLayers) weights(hidden int) float64 {
	return float64(hidden)*float64(l.InputWidth()+2*l.ValueHeads+l.ValueWidth()) + float64(l.width()*l.Conv)
}

// stateBytes returns the bytes of a sequence's state in a layer on one of tp GPUs.
func (l *LinearLayers) stateBytes(tp int) float64 {
	rule := l.ValueHeads / tp * l.KeySize * l.ValueSize * l.StateBytes
	return float64(rule + l.width()/tp*(l.Conv-1)*2)
}

// KVLayers returns the layers that keep keys and values.
func (m *Model) KVLayers() int {
	if m.Linear != nil {
		return m.Layers - m.Linear.Layers
	}
	return m.Layers
}

// StateBlocks returns how vLLM keeps the state of a sequence of a model with linear layers: the tokens of a block, which grows until it has room for
// the state of a layer, and the blocks that the state takes, each of them in as many layers as have keys and values.
func (f *Fit) StateBlocks() (tokens, blocks int) {
	l := f.Model.Linear
	if l == nil {
		return f.BlockTokens, 0
	}
	const unit = 16 // tokens by which a block grows
	tokens = int(math.Ceil(l.stateBytes(f.TP)/f.layerBytes()/unit)) * unit
	full := f.Model.KVLayers()
	return tokens, (l.Layers + full - 1) / full
}

// sequenceBytes returns the bytes that the state of a sequence takes on one GPU, with the room around it.
func (f *Fit) sequenceBytes() float64 {
	if f.Model.Linear == nil || f.SGLang {
		return f.StateBytes()
	}
	tokens, blocks := f.StateBlocks()
	return float64(tokens*blocks) * f.layerBytes() * f.stageShare(f.Model.KVLayers())
}

// ReadBytes returns the bytes that a token of a sequence of that length reads on one GPU: its KV cache, or of sparse attention the keys of the
// indexer and the tokens that are chosen, and the state of linear layers.
func (f *Fit) ReadBytes(length int) float64 {
	m := &f.Model
	bytes := float64(length)*f.windowedBytes(min(float64(m.Window+f.MaxBatch)/float64(length), 1)) + f.StateBytes()
	if x := m.Indexer; x != nil && length > x.Chosen {
		bytes -= float64(length-x.Chosen) * (f.layerBytes() - x.bytes()) * f.stageShare(m.Layers)
	}
	return bytes
}

// StateBytes returns the bytes of the state of linear layers that a sequence has on one GPU.
func (f *Fit) StateBytes() float64 {
	if l := f.Model.Linear; l != nil {
		return l.stateBytes(f.TP) * f.stageShare(l.Layers)
	}
	return 0
}

// tokenState returns the bytes of state and of the room that is left in a last block, for each token of a sequence.
func (f *Fit) tokenState(length int) float64 {
	l := f.Model.Linear
	if l == nil {
		return 0
	}
	bytes := f.sequenceBytes() / float64(length)
	if tokens, _ := f.StateBlocks(); !f.SGLang {
		filled := math.Ceil(float64(length)/float64(tokens)) * float64(tokens)
		bytes += (filled/float64(length) - 1) * f.layerBytes() * f.stageShare(f.Model.KVLayers())
	}
	return bytes
}
