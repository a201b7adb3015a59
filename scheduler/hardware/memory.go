package hardware

import (
	"fmt"
	"math"
)

// Fit is a model on GPUs: what decides how much memory is left for KV blocks.
type Fit struct {
	GPU   GPU
	Model Model
	// GPUs of a worker: every rank of TP holds a share of each layer, every rank of PP
	// some layers, and every rank of DP all of attention for its own requests. The experts are spread over TP and DP.
	TP, PP, DP  int
	EP          int     // GPUs over which whole experts are spread; 0, 1: each expert is cut over TP and DP
	Weights     Type    // "": as the checkpoint has them
	KVBits      float64 // of a value in the KV cache; 0: 16
	Utilization float64 // share of the GPU's memory that the engine takes
	// Engine is the engine and release, as vllm-0.33; "": vLLM's newest.
	Engine    string
	Operators string // directory with measured operator times; "": those in the program
	SGLang    bool   // Utilization holds weights and KV cache alone, activations come on top
	TimesYarn bool   // the model's longest sequence with YaRN is that of vLLM before 0.30

	BlockTokens int
	MaxSeqs     int
	MaxBatch    int    // tokens of a pass
	MaxLength   int    // longest sequence; 0: the model's
	Live        int    // tokens of the sequences in the KV cache, on average; 0: the longest
	Graphs      string // of GraphModes; "": full
	Groups      Groups // of layers that have separate KV blocks
}

// Groups are groups of a model's layers that take blocks for the same tokens from one pool,
// so that the layers with windows can free theirs. The zero value is one group of all layers. Its windows count by the length of
// sequences.
type Groups struct {
	Layers  int  // of the largest group, for which a block has room; 0: one group
	Blocks  int  // that all groups need of the longest sequence
	KeepAll bool // layers with windows keep all tokens, as the other layers do
	// Share is the part of the other layers' tokens that layers with windows have in a separate pool, as in SGLang; 0: no layer
	// has it.
	Share float64
}

// Budget is where the memory of one GPU goes, in bytes.
type Budget struct {
	Total       float64 `json:"total_bytes"`
	Usable      float64 `json:"usable_bytes"` // the engine's share of it
	Weights     float64 `json:"weights_bytes"`
	Activations float64 `json:"activations_bytes"` // of the largest pass
	Graphs      float64 `json:"graphs_bytes"`      // compiled code and captured graphs
	Runtime     float64 `json:"runtime_bytes"`     // driver, libraries, communication buffers
	KV          float64 `json:"kv_bytes"`          // what is left, possibly below 0
	PerToken    float64 `json:"kv_bytes_per_token"`
	Tokens      int     `json:"kv_tokens"` // of one rank of DP
	Blocks      int     `json:"num_gpu_blocks"`
}

// DefaultUtilization is the share of a GPU's memory that vLLM takes when nothing is
// said.
const DefaultUtilization = 0.9

// Eager reports whether no graphs are captured.
func (f *Fit) Eager() bool { return f.Graphs == "none" }

// GPUs returns the GPUs of one worker.
func (f *Fit) GPUs() int { return f.TP * f.PP * f.DP }

// weightBytes returns the bytes of the weights on the fullest GPU.
func (f *Fit) weightBytes() float64 {
	m, s := &f.Model, f.Model.Shape()
	attention, dense, expert := f.weightBits()
	tp, pp := float64(f.TP), float64(f.PP)
	layers := (s.Attention*attention/8+s.Dense*dense/8)/tp + s.Experts*expert/8/(tp*float64(f.DP))
	if f.PP > 1 { // stages have whole layers; one end also has a table of the vocabulary
		share := math.Ceil(float64(m.Layers)/pp) / float64(m.Layers)
		return layers*share + 2*s.Embedding/tp
	}
	tables := s.Embedding
	if !m.Tied {
		tables += s.Head
	}
	return layers + 2*tables/tp
}

// KVBytesPerToken returns the bytes of KV cache of a token on one GPU, over a sequence of that many tokens: layers with
// a window keep only their last tokens, and those of a pass.
func (f *Fit) KVBytesPerToken(length int) float64 {
	return f.windowedBytes(min(float64(f.Model.Window+f.MaxBatch)/float64(length), 1)) + f.tokenState(length)
}

// liveBytesPerToken returns the same over the sequences that are in the KV cache, few of
// which have a prompt in the pass.
func (f *Fit) liveBytesPerToken() float64 {
	if g := f.Groups; g.Layers > 0 {
		return f.layerBytes() * f.stageShare(g.Layers) * float64(g.Blocks*f.BlockTokens) / float64(f.LongestSequence())
	}
	if f.Groups.Share > 0 {
		return f.windowedBytes(f.Groups.Share)
	}
	if f.Live == 0 {
		return f.KVBytesPerToken(f.LongestSequence())
	}
	return f.windowedBytes(min(float64(f.Model.Window+f.BlockTokens)/float64(f.Live), 1)) + f.tokenState(f.Live)
}

// CacheBytesPerToken returns the bytes of a token in the KV cache of one GPU, without what is kept for a sequence, for any length.
func (f *Fit) CacheBytesPerToken() float64 { return f.windowedBytes(1) }

// windowedBytes returns the bytes of a token of which layers with a window keep a share.
func (f *Fit) windowedBytes(kept float64) float64 {
	m := &f.Model
	layers := f.stageShare(m.KVLayers())
	if f.Groups.KeepAll && m.WindowLayers < m.Layers {
		kept = 1
	}
	windowed := layers * float64(m.WindowLayers) / float64(m.Layers)
	return f.layerBytes() * (layers - windowed + windowed*kept)
}

// layerBytes returns the bytes of a token in one layer.
func (f *Fit) layerBytes() float64 {
	m, value := &f.Model, fillBits(f.KVBits)/8
	if l := m.Latent; l != nil {
		latent := value * float64(l.Rank+l.Rope) // each rank of TP has all of it
		if x := m.Indexer; x != nil {
			if value == 1 {
				latent = sparseBytes
			}
			latent += x.bytes()
		}
		return latent
	}
	return 2 * value * max(1, math.Ceil(float64(m.KVHeads)/float64(f.TP))) * float64(m.HeadSize)
}

// stageShare returns how many of the given layers the fullest stage has.
func (f *Fit) stageShare(layers int) float64 { return math.Ceil(float64(layers) / float64(f.PP)) }

// TransferBytes returns the bytes of KV cache of a token on all GPUs together without copies, for transfers from
// prefill workers.
func (f *Fit) TransferBytes() int {
	one := *f
	one.TP, one.PP = 1, 1
	return int(one.KVBytesPerToken(contextLength))
}

// NetworkGBPerSecond returns the bandwidth between workers: that of each GPU to other nodes.
func (f *Fit) NetworkGBPerSecond() float64 { return f.GPU.NodeGBPerSecond() * float64(f.TP*f.PP) }

// Nodes returns the nodes over which the GPUs of a worker are spread.
func (f *Fit) Nodes() int { return (f.GPUs() + f.GPU.NodeSize() - 1) / f.GPU.NodeSize() }

// LongestSequence returns the longest sequence, in tokens.
func (f *Fit) LongestSequence() int {
	if f.MaxLength > 0 {
		return f.MaxLength
	}
	if n := f.Model.lengthBy(f.SGLang, f.TimesYarn); n > 0 {
		return n
	}
	return 32768
}

// Allowances that no data sheet has. They were set on servers that print their
// budget: docs/accuracy.md has what they miss by.
const (
	runtimeBytes    = 0.35 * GiB  // of driver and libraries
	linkedBytes     = 1.0 * GiB   // of the buffers between GPUs
	graphLayerBytes = 0.013 * GiB // of graphs and compiled code, a layer 4,096 wide
)

// Budget returns where the memory of the fullest GPU goes.
func (f *Fit) Budget() Budget {
	m, tp := &f.Model, float64(f.TP)
	b := Budget{Total: f.GPU.Memory(), Weights: f.weightBytes(), PerToken: f.liveBytesPerToken(), Runtime: runtimeBytes}
	b.Usable = b.Total * f.Utilization
	width := m.MLP
	if e := m.MoE; e != nil {
		width = max(width, e.PerToken*e.MLP+e.Shared)
	}
	products := float64(f.MaxBatch) * (3*float64(width)/tp + 3*float64(m.Hidden)) * 2
	logits := float64(min(f.MaxSeqs, f.MaxBatch)) * float64(m.Vocab) * 3 * 4
	b.Activations = max(products, logits)
	if !f.Eager() {
		b.Graphs = graphLayerBytes * math.Ceil(float64(m.Layers)/float64(f.PP)) * math.Sqrt(float64(m.Hidden)/4096)
	}
	if f.GPUs() > 1 {
		b.Runtime += linkedBytes
	}
	b.KV = b.Usable - b.Weights
	if !f.SGLang {
		b.KV -= b.Activations + b.Graphs + b.Runtime
	}
	if b.KV > 0 {
		b.Tokens = int(b.KV / b.PerToken)
		if g := f.Groups; g.Layers > 0 {
			b.Blocks = int(b.KV / (f.layerBytes() * f.stageShare(g.Layers)) / float64(f.BlockTokens))
		} else {
			b.Blocks = b.Tokens / f.BlockTokens
			b.Tokens = b.Blocks * f.BlockTokens
		}
	}
	return b
}

// BlocksFor returns the blocks that a single sequence of that many tokens may have: it
// keeps less of its windows than shorter ones that are Live.
func (f *Fit) BlocksFor(tokens int) int {
	longest := *f
	longest.Live = 0
	return min(longest.Budget().Blocks, tokens/f.BlockTokens+2)
}

// TooLargeError is a model that leaves its GPU no room for KV blocks.
type TooLargeError struct {
	Fit    Fit
	Budget Budget
	Need   int // tokens of KV cache that there must be room for
	// LeastTP is the least tensor parallelism that fits, 0: none up to 64 does.
	LeastTP int
}

// Error returns the sum, and what to do.
func (e *TooLargeError) Error() string {
	b, f := &e.Budget, &e.Fit
	gib := func(bytes float64) string { return fmt.Sprintf("%.1f GiB", bytes/GiB) }
	other := ""
	if !f.SGLang {
		other = fmt.Sprintf(", %s of activations, graphs and libraries", gib(b.Activations+b.Graphs+b.Runtime))
	}
	text := fmt.Sprintf("%s does not fit on %s with tp %d: of %s an engine may use %s (%g), and %s of weights%s leave %s for KV blocks, must have room for %d tokens (%s)",
		f.Model.Name, f.GPU.Name, f.TP, gib(b.Total), gib(b.Usable), f.Utilization, gib(b.Weights), other, gib(max(b.KV, 0)), e.Need, gib(float64(e.Need)*b.PerToken))
	if e.LeastTP > 0 {
		return text + fmt.Sprintf(": it fits from --tp %d on", e.LeastTP)
	}
	return text + ": it fits with no --tp up to 64"
}

// Check returns the budget, or a *TooLargeError when there is no room for the tokens
// of one pass, or of a sequence of MaxLength where that is said.
func (f *Fit) Check() (Budget, error) {
	longest := *f
	longest.Live = 0
	b, need := longest.Budget(), max(f.MaxBatch, f.MaxLength)
	if b.Tokens >= need {
		return f.Budget(), nil
	}
	return b, &TooLargeError{Fit: *f, Budget: b, Need: need, LeastTP: longest.leastTP(need)}
}

// leastTP returns the least tensor parallelism that divides the heads and has room for that many tokens; 0: none up to 64.
func (f *Fit) leastTP(need int) int {
	wider := *f
	for wider.TP = 1; wider.TP <= 64; wider.TP *= 2 {
		if wider.Divides() && wider.Budget().Tokens >= need {
			return wider.TP
		}
	}
	return 0
}

// Divides reports whether the ranks of TP can share the model's heads evenly.
func (f *Fit) Divides() bool {
	l := f.Model.Linear
	return f.Model.Heads%f.TP == 0 && (l == nil || l.KeyHeads%f.TP == 0 && l.ValueHeads%f.TP == 0)
}
