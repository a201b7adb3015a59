package hardware

import (
	"fmt"
	"math"
)

// Fit is a model on GPUs, with all values that determine the remaining memory for KV blocks.
type Fit struct {
	GPU   GPU
	Model Model
	// TP, PP and DP give the GPUs of a worker. Every rank of TP has a share of each layer, and every rank of PP has
	// some of the layers. Every rank of DP has all of attention for its own requests. The experts are spread over TP
	// and DP.
	TP, PP, DP  int
	EP          int     // GPUs over which whole experts are spread; 0 or 1: each expert is split over TP and DP
	Weights     Type    // "": as in the checkpoint
	KVBits      float64 // bits of a value in the KV cache; 0: 16
	Utilization float64 // share of the GPU's memory for the engine
	// Engine is the engine and release, for example vllm-0.33; "" means the newest vLLM.
	Engine    string
	Operators string // directory of measured operator times; "": the built-in tables
	SGLang    bool   // Utilization covers only weights and KV cache, without activations
	TimesYarn bool   // compute the longest sequence with YaRN like vLLM before 0.30

	BlockTokens int
	MaxSeqs     int
	MaxBatch    int    // maximum number of tokens of a pass
	MaxLength   int    // longest sequence in tokens; 0: the model's
	Live        int    // mean length of the sequences in the KV cache, in tokens; 0: the longest
	Graphs      string // one of GraphModes; "": full
	Groups      Groups // groups of layers with separate KV blocks
}

// Groups describes groups of a model's layers. The groups allocate blocks for the same tokens from one pool, so that
// layers with windows can free their old blocks. The zero value is one group of all layers. In this case, layers with
// windows store a number of tokens that depends on the length of sequences.
type Groups struct {
	Layers  int  // layers of the largest group, which determine the size of a block; 0: one group
	Blocks  int  // blocks that all groups need for the longest sequence
	KeepAll bool // layers with windows keep all tokens, like the other layers
	// Share is the ratio of tokens in the separate pool of layers with windows to tokens in the pool of the other
	// layers, as in SGLang. 0 means no separate pool.
	Share float64
}

// Budget is the use of the memory of one GPU, in bytes.
type Budget struct {
	Total       float64 `json:"total_bytes"`
	Usable      float64 `json:"usable_bytes"` // memory that the engine may use
	Weights     float64 `json:"weights_bytes"`
	Activations float64 `json:"activations_bytes"` // activations of the largest pass
	Graphs      float64 `json:"graphs_bytes"`      // compiled code and captured graphs
	Runtime     float64 `json:"runtime_bytes"`     // driver, libraries, communication buffers
	KV          float64 `json:"kv_bytes"`          // remaining memory for KV blocks, possibly negative
	PerToken    float64 `json:"kv_bytes_per_token"`
	Tokens      int     `json:"kv_tokens"` // tokens of one rank of DP
	Blocks      int     `json:"num_gpu_blocks"`
}

// DefaultUtilization is the default share of a GPU's memory that vLLM uses.
const DefaultUtilization = 0.9

// Eager reports whether no graphs are captured.
func (f *Fit) Eager() bool { return f.Graphs == "none" }

// GPUs returns the number of GPUs of one worker.
func (f *Fit) GPUs() int { return f.TP * f.PP * f.DP }

// weightBytes returns the bytes of the weights on the GPU with the most weights.
func (f *Fit) weightBytes() float64 {
	m, s := &f.Model, f.Model.Shape()
	attention, dense, expert := f.weightBits()
	tp, pp := float64(f.TP), float64(f.PP)
	layers := (s.Attention*attention/8+s.Dense*dense/8)/tp + s.Experts*expert/8/(tp*float64(f.DP))
	if f.PP > 1 { // a stage has whole layers, and the first or last stage also has a vocabulary table
		share := math.Ceil(float64(m.Layers)/pp) / float64(m.Layers)
		return layers*share + 2*s.Embedding/tp
	}
	tables := s.Embedding
	if !m.Tied {
		tables += s.Head
	}
	return layers + 2*tables/tp
}

// KVBytesPerToken returns the bytes of KV cache per token on one GPU, for a sequence of the given length. Layers with
// a window keep only the tokens of the window and of one pass.
func (f *Fit) KVBytesPerToken(length int) float64 {
	return f.windowedBytes(min(float64(f.Model.Window+f.MaxBatch)/float64(length), 1)) + f.tokenState(length)
}

// liveBytesPerToken returns the bytes of KV cache per token, averaged over the sequences in the KV cache. Few
// sequences of a pass have prompt tokens in it.
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

// CacheBytesPerToken returns the bytes of a token in the KV cache of one GPU. CacheBytesPerToken does not include
// state per sequence, and does not depend on the length.
func (f *Fit) CacheBytesPerToken() float64 { return f.windowedBytes(1) }

// windowedBytes returns the bytes per token if layers with a window keep the share kept of the tokens.
func (f *Fit) windowedBytes(kept float64) float64 {
	m := &f.Model
	layers := f.stageShare(m.KVLayers())
	if f.Groups.KeepAll && m.WindowLayers < m.Layers {
		kept = 1
	}
	windowed := layers * float64(m.WindowLayers) / float64(m.Layers)
	return f.layerBytes() * (layers - windowed + windowed*kept)
}

// layerBytes returns the bytes of a token in one layer on one GPU.
func (f *Fit) layerBytes() float64 {
	m, value := &f.Model, fillBits(f.KVBits)/8
	if l := m.Latent; l != nil {
		latent := value * float64(l.Rank+l.Rope) // each rank of TP has the whole latent vector
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

// stageShare returns how many of the given layers the largest stage has.
func (f *Fit) stageShare(layers int) float64 { return math.Ceil(float64(layers) / float64(f.PP)) }

// TransferBytes returns the bytes of KV cache per token on all GPUs together, without replicas. TransferBytes is used
// for transfers from prefill workers.
func (f *Fit) TransferBytes() int {
	one := *f
	one.TP, one.PP = 1, 1
	return int(one.KVBytesPerToken(contextLength))
}

// NetworkGBPerSecond returns the bandwidth between workers: the sum of the bandwidths of each GPU to other nodes, in
// 10^9 bytes/s.
func (f *Fit) NetworkGBPerSecond() float64 { return f.GPU.NodeGBPerSecond() * float64(f.TP*f.PP) }

// Nodes returns the number of nodes with GPUs of a worker.
func (f *Fit) Nodes() int { return (f.GPUs() + f.GPU.NodeSize() - 1) / f.GPU.NodeSize() }

// LongestSequence returns the maximum sequence length, in tokens.
func (f *Fit) LongestSequence() int {
	if f.MaxLength > 0 {
		return f.MaxLength
	}
	if n := f.Model.lengthBy(f.SGLang, f.TimesYarn); n > 0 {
		return n
	}
	return 32768
}

// Allowances for memory that no data sheet lists. The allowances were fitted to servers that log their budget;
// docs/accuracy.md lists the errors.
const (
	runtimeBytes    = 0.35 * GiB  // driver and libraries
	linkedBytes     = 1.0 * GiB   // buffers between GPUs
	graphLayerBytes = 0.013 * GiB // graphs and compiled code, per layer with a hidden size of 4,096
)

// Budget returns the use of memory on the fullest GPU.
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

// BlocksFor returns the maximum number of blocks of a single sequence with the given number of tokens. A long
// sequence keeps a smaller share of its tokens in windows than the shorter sequences of Live.
func (f *Fit) BlocksFor(tokens int) int {
	longest := *f
	longest.Live = 0
	return min(longest.Budget().Blocks, tokens/f.BlockTokens+2)
}

// TooLargeError reports a model that leaves too little memory for KV blocks.
type TooLargeError struct {
	Fit    Fit
	Budget Budget
	Need   int // required number of tokens of KV cache
	// LeastTP is the least tensor parallelism that fits, or 0 if none up to 64 fits.
	LeastTP int
}

// Error returns the budget and the required change.
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

// Check returns the budget. Check returns a *TooLargeError if there is no room for the tokens of one pass, or for a
// sequence of MaxLength if it is set.
func (f *Fit) Check() (Budget, error) {
	longest := *f
	longest.Live = 0
	b, need := longest.Budget(), max(f.MaxBatch, f.MaxLength)
	if b.Tokens >= need {
		return f.Budget(), nil
	}
	return b, &TooLargeError{Fit: *f, Budget: b, Need: need, LeastTP: longest.leastTP(need)}
}

// leastTP returns the least tensor parallelism that divides the heads and has room for the given number of tokens, or
// 0 if none up to 64 does.
func (f *Fit) leastTP(need int) int {
	wider := *f
	for wider.TP = 1; wider.TP <= 64; wider.TP *= 2 {
		if wider.Divides() && wider.Budget().Tokens >= need {
			return wider.TP
		}
	}
	return 0
}

// Divides reports whether the model's heads are divisible by TP.
func (f *Fit) Divides() bool {
	l := f.Model.Linear
	return f.Model.Heads%f.TP == 0 && (l == nil || l.KeyHeads%f.TP == 0 && l.ValueHeads%f.TP == 0)
}
