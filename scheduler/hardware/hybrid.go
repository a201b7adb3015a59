package hardware

import "math"

// Indexer selects the tokens that latent attention attends to (DeepSeek sparse attention). The indexer has a separate
// key for each token and layer.
type Indexer struct {
	Heads, HeadSize int
	Chosen          int // maximum number of selected tokens
}

// bytes returns the bytes of a token's key: 8-bit values and a scale of 4 bytes.
func (x *Indexer) bytes() float64 { return float64(x.HeadSize) + 4 }

// weights returns the number of weights in the products for queries, keys and head weights.
func (x *Indexer) weights(m *Model) float64 {
	return float64(m.Latent.Query*x.Heads*x.HeadSize) + float64(m.Hidden*x.HeadSize) + float64(m.Hidden*x.Heads)
}

// sparseBytes is the bytes of a token of 8-bit latent attention with an indexer: 512 values of one byte, 4 scales of
// 4 bytes, and 64 rotated values of 16 bits.
const sparseBytes = 512 + 4*4 + 2*64

// LinearLayers are layers that have a state for each sequence instead of keys and values.
type LinearLayers struct {
	Kind                  string // the update rule: gdn
	Layers                int
	KeyHeads, KeySize     int
	ValueHeads, ValueSize int
	Conv                  int // tokens of the convolution before the rule
	StateBytes            int // bytes per value of the rule's state; values of the convolution's state have 2 bytes
}

// width returns the number of values per token in the convolution: queries, keys and values.
func (l *LinearLayers) width() int { return 2*l.KeyHeads*l.KeySize + l.ValueHeads*l.ValueSize }

// InputWidth returns the number of outputs of the product before the convolution: queries, keys, values and the gate.
func (l *LinearLayers) InputWidth() int { return l.width() + l.ValueHeads*l.ValueSize }

// ValueWidth returns the number of output values of the rule per token.
func (l *LinearLayers) ValueWidth() int { return l.ValueHeads * l.ValueSize }

// weights returns the number of weights of a layer.
func (l *LinearLayers) weights(hidden int) float64 {
	return float64(hidden)*float64(l.InputWidth()+2*l.ValueHeads+l.ValueWidth()) + float64(l.width()*l.Conv)
}

// stateBytes returns the bytes of a sequence's state in one layer on one of tp GPUs.
func (l *LinearLayers) stateBytes(tp int) float64 {
	rule := l.ValueHeads / tp * l.KeySize * l.ValueSize * l.StateBytes
	return float64(rule + l.width()/tp*(l.Conv-1)*2)
}

// KVLayers returns the number of layers with keys and values.
func (m *Model) KVLayers() int {
	if m.Linear != nil {
		return m.Layers - m.Linear.Layers
	}
	return m.Layers
}

// StateBlocks returns the layout of a sequence's state in vLLM, for a model with linear layers. tokens is the block
// size, which is increased until a block has room for the state of one layer. blocks is the number of blocks of the
// state; each block covers as many layers as have keys and values.
func (f *Fit) StateBlocks() (tokens, blocks int) {
	l := f.Model.Linear
	if l == nil {
		return f.BlockTokens, 0
	}
	const unit = 16 // block sizes are multiples of this number of tokens
	tokens = int(math.Ceil(l.stateBytes(f.TP)/f.layerBytes()/unit)) * unit
	full := f.Model.KVLayers()
	return tokens, (l.Layers + full - 1) / full
}

// sequenceBytes returns the bytes that the state of a sequence takes on one GPU, including unused room in its blocks.
func (f *Fit) sequenceBytes() float64 {
	if f.Model.Linear == nil || f.SGLang {
		return f.StateBytes()
	}
	tokens, blocks := f.StateBlocks()
	return float64(tokens*blocks) * f.layerBytes() * f.stageShare(f.Model.KVLayers())
}

// ReadBytes returns the bytes that one GPU reads to compute one token after a sequence of the given length. The bytes
// are its KV cache and the state of linear layers. Sparse attention reads the keys of the indexer and the KV cache of
// the selected tokens.
func (f *Fit) ReadBytes(length int) float64 {
	m := &f.Model
	bytes := float64(length)*f.windowedBytes(min(float64(m.Window+f.MaxBatch)/float64(length), 1)) + f.StateBytes()
	if x := m.Indexer; x != nil && length > x.Chosen {
		bytes -= float64(length-x.Chosen) * (f.layerBytes() - x.bytes()) * f.stageShare(m.Layers)
	}
	return bytes
}

// StateBytes returns the bytes of a sequence's state in linear layers on one GPU.
func (f *Fit) StateBytes() float64 {
	if l := f.Model.Linear; l != nil {
		return l.stateBytes(f.TP) * f.stageShare(l.Layers)
	}
	return 0
}

// tokenState returns the bytes of the state and of the unused room in the last block, per token of a sequence.
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
