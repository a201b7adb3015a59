package hardware

// Pass is the times of the parts of a forward pass on a Fit, in seconds. Package timing combines the parts.
type Pass struct {
	Base      float64 // time per pass, for any work: the host, collectives, launches without graphs
	MixedBase float64 // time added to a pass that also computes prompts
	Request   float64 // time per request in the pass
	Weights   float64 // time to read the weights that every pass reads
	Experts   float64 // time to read all experts
	Share     float64 // share of all experts that one token is sent to
	Token     float64 // time to multiply a token with the weights
	Pair      float64 // time of attention per pair of a new token and an earlier token of a prompt
	Context   float64 // time to read the KV cache of a token
	Network   float64 // time of communication between the GPUs per token
}

// Shares of the peak rates in data sheets that engines reach, and times that no data sheet lists. The values are
// round numbers that fit the measured servers of docs/accuracy.md, the same for every GPU and model.
const (
	bandwidthShare = 0.85   // share of the memory bandwidth for reading weights
	contextShare   = 0.7    // share of the memory bandwidth for reading the KV cache
	productShare   = 0.7    // share of the peak rate of products
	pairShare      = 0.4    // share of the peak rate of products in attention
	hostTime       = 1e-3   // time per pass in s, for scheduling and sampling
	mixedTime      = 0.5e-3 // time in s added to a pass that computes prompts
	requestTime    = 12e-6  // time per request in s
	linkShare      = 0.7    // share of a link's bandwidth
	linkTime       = 6e-6   // time per collective in s, over NVLink or similar
	pcieTime       = 20e-6  // time per collective in s, over PCIe
	contextLength  = 4096   // tokens of a sequence, for the mean size of windows
)

// Times to launch a layer from the host, in s.
const (
	LaunchTime = 50e-6 // launch of single kernels
	PieceTime  = 12e-6 // the pieces between attention operators run as graphs
)

// Pass returns the times of the parts of a pass.
//
// The weights of attention and dense layers are split over TP and those of experts over TP and DP. All stages of PP
// are assumed to be busy, with one batch per stage: a pass reads all layers one after the other, and the stages share
// its products.
func (f *Fit) Pass() Pass {
	m, g, s := &f.Model, &f.GPU, f.Model.Shape()
	attention, dense, expert := f.weightBits()
	activations := fillBits(m.ActivationBits)
	if bits := f.Weights.bits(); f.Weights.narrow() {
		activations = bits
	}
	tp, pp, dp := float64(f.TP), float64(f.PP), float64(f.DP)
	bandwidth := g.Bandwidth * 1e9
	p := Pass{Base: hostTime, MixedBase: mixedTime, Request: requestTime}
	p.Weights = (s.Attention*attention/8 + s.Dense*dense/8 + 2*s.Head) / tp / (bandwidthShare * bandwidth)
	p.Token = 2 * (s.Attention/g.FLOPs(attention, activations) + s.Dense/g.FLOPs(dense, activations) + s.Head/g.FLOPs(16, 16)) / (tp * pp * productShare)
	if e := m.MoE; e != nil {
		p.Share = float64(e.PerToken) / float64(e.Count)
		p.Experts = s.Experts * expert / 8 / (tp * dp) / (bandwidthShare * bandwidth)
		p.Token += 2 * s.Experts * p.Share / g.FLOPs(expert, activations) / (tp * pp * productShare)
	}
	query := float64(m.Heads * m.HeadSize)
	if l := m.Latent; l != nil {
		query = float64(m.Heads) * float64(l.NoPosition+l.Rope+l.Value) / 2
	}
	p.Pair = 4 * float64(m.KVLayers()) * query / (tp * pp) / (pairShare * g.FLOPs(16, 16))
	state := f.StateBytes()
	p.Context = (f.ReadBytes(contextLength) - state) / contextLength / (contextShare * bandwidth)
	p.Request += 2 * state / (contextShare * bandwidth) // the state is read and written
	switch f.Graphs {
	case "none":
		p.Base += LaunchTime * float64(m.Layers)
	case "piecewise":
		p.Base += PieceTime * float64(m.Layers)
	}
	f.addNetwork(&p)
	return p
}

// Fastest returns the minimum times of reading and of products, at the peak rates of the data sheet.
func (f *Fit) Fastest() Pass {
	p := f.Pass()
	return Pass{Weights: p.Weights * bandwidthShare, Experts: p.Experts * bandwidthShare, Token: p.Token * productShare}
}

// addNetwork adds the collectives of the GPUs of a worker. TP needs two all-reduces per layer. EP needs two
// all-to-alls per layer of experts, and DP without EP an all-gather and a reduce-scatter. PP needs a hop per stage.
func (f *Fit) addNetwork(p *Pass) {
	m := &f.Model
	hidden := 2 * float64(m.Hidden) // bytes per token between layers
	if n := float64(f.TP); f.TP > 1 {
		reduces := 2 * float64(m.Layers)
		link, each := f.linkOf(f.TP)
		p.Base += reduces * each
		p.Network += reduces * 2 * (n - 1) / n * hidden / link / float64(f.PP)
	}
	if sends := 2 * float64(m.ExpertLayers()); sends > 0 {
		link, each := f.linkOf(f.TP * f.DP)
		switch n, k := float64(f.EP), float64(f.DP); {
		case f.EP > 1: // a token is sent to the GPUs of its experts, and back
			p.Base += sends * each
			p.Network += sends * float64(m.MoE.PerToken) * (n - 1) / n * hidden / link / float64(f.TP*f.PP)
		case f.DP > 1: // each rank receives the tokens of all ranks, and their sums
			p.Base += sends * each
			p.Network += sends * (k - 1) * hidden / link / float64(f.TP*f.PP)
		}
	}
	if f.PP > 1 {
		far := min((f.TP*f.PP-1)/f.GPU.NodeSize(), f.PP-1) // hops to a stage on another node
		p.addHops(f, f.PP-1-far, hidden, 1)
		p.addHops(f, far, hidden, f.GPU.NodeSize()+1)
	}
}

// addHops adds a number of hops that send a token's bytes between stages, over the link that connects the given
// number of GPUs.
func (p *Pass) addHops(f *Fit, hops int, bytes float64, gpus int) {
	link, each := f.linkOf(gpus)
	p.Base += float64(hops) * each
	p.Network += float64(hops) * bytes / link / float64(f.PP)
}

// linkOf returns the bandwidth of a collective of the given number of GPUs, in bytes/s, and its minimum time, in s.
// Across nodes, the values within a node are scaled by the ratio of the link bandwidths between nodes and within a
// node. NVIDIA's measured tables are extended to several nodes by the same rule.
func (f *Fit) linkOf(gpus int) (bandwidth, least float64) {
	bandwidth, least = linkShare*f.GPU.Link*1e9, linkTime
	if f.GPU.PCIe {
		least = pcieTime
	}
	if bandwidth == 0 {
		bandwidth = linkShare * 16e9 // unknown link: slow PCIe
	}
	if node := linkShare * f.GPU.NodeGBPerSecond() * 1e9; gpus > f.GPU.NodeSize() && node < bandwidth {
		return node, least * bandwidth / node
	}
	return bandwidth, least
}
