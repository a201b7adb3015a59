package timing

import (
	"fmt"
	"math"
	"sort"
)

// Parameters is a model of a forward pass on a GPU. The time is the larger of reading the weights and multiplying
// with them, plus reading the KV cache, attention inside prompts, and the host.
type Parameters struct {
	Base      float64 `json:"base_s"`          // time per pass in s, for any work
	Weights   float64 `json:"weights_s"`       // time to read the weights once in s
	Token     float64 `json:"token_s"`         // time per computed token in s
	Pair      float64 `json:"pair_s"`          // time per (new token, earlier token) pair of prompts in s
	Request   float64 `json:"request_s"`       // time per request in the pass in s
	Context   float64 `json:"context_s"`       // time per token of KV cache read in s, in passes that only decode
	Mixed     float64 `json:"mixed_context_s"` // time per token of KV cache read in s, in passes that also compute prompts
	MixedBase float64 `json:"mixed_base_s"`    // additional time in s per pass that also computes prompts
	// Experts is s to read all experts once. ExpertShare is the share of experts that one token is sent to. n tokens
	// use 1-(1-ExpertShare)^n of the experts.
	Experts     float64 `json:"experts_s,omitempty"`
	ExpertShare float64 `json:"expert_share,omitempty"`
	Network     float64 `json:"network_s,omitempty"` // time per computed token in s, for communication between the GPUs of a worker
	// PiecewiseBase is s added to a pass that is not one graph. EagerBase is s added, in addition, to a pass without
	// graphs. GraphMode determines which passes use graphs.
	PiecewiseBase float64   `json:"piecewise_base_s,omitempty"`
	EagerBase     float64   `json:"eager_base_s,omitempty"`
	GraphMode     GraphMode `json:"cudagraph_mode,omitempty"`
	// Knee is the exponent 1, 2 or 4 of the smooth maximum of reading and multiplying; 0 counts as 4.
	Knee   int   `json:"knee"`
	Graphs []int `json:"graph_sizes_tokens"` // token counts of captured graphs, ascending; a pass is padded to the next size
}

// ByContext returns true: times depend on the KV cache that a pass reads.
func (*Parameters) ByContext() bool { return true }

// Step returns the time of a whole pass.
func (p *Parameters) Step(s *Step) float64 {
	return p.addContext(p.timeApartFromContext(s), s)
}

// addContext returns the time of a pass, in ms: t seconds, plus the parts that depend on KV caches and prompts.
func (p *Parameters) addContext(t float64, s *Step) float64 {
	t += p.launchTime(s)
	if !s.Mixed() {
		return 1000 * (t + float64(p.Context*float64(s.Context)))
	}
	t += p.MixedBase + float64(p.Pair*s.Pairs)
	return 1000 * (t + float64(p.Mixed*float64(s.Context)))
}

// timeApartFromContext returns the part of the time of a pass, in s, that depends neither on KV caches nor on prompts.
func (p *Parameters) timeApartFromContext(s *Step) float64 {
	t := p.Base + p.denseTime(s.Tokens)
	return t + (float64(p.Request*float64(s.Requests)) + float64(p.Network*float64(s.Tokens)))
}

// denseTime returns a smooth maximum of the times to read the weights and to multiply them with the given number of
// tokens.
func (p *Parameters) denseTime(tokens int) float64 {
	read, multiply := p.Weights, float64(p.Token*float64(p.paddedTokens(tokens)))
	if p.Experts > 0 {
		read += float64(p.Experts * (1 - raisePower(1-p.ExpertShare, tokens)))
	}
	if p.Knee == 1 {
		return read + multiply
	}
	w, m := float64(read*read), float64(multiply*multiply)
	if p.Knee == 2 {
		return math.Sqrt(w + m)
	}
	return math.Sqrt(math.Sqrt(float64(w*w) + float64(m*m)))
}

// raisePower returns x^n with the same operations on every machine.
func raisePower(x float64, n int) float64 {
	all := 1.0
	for ; n > 0; n /= 2 {
		if n%2 == 1 {
			all *= x
		}
		x *= x
	}
	return all
}

// paddedTokens returns the size of the smallest graph for tokens, or tokens if there is none.
func (p *Parameters) paddedTokens(tokens int) int {
	n := len(p.Graphs)
	if n == 0 || tokens > p.Graphs[n-1] {
		return tokens
	}
	return p.Graphs[sort.SearchInts(p.Graphs, tokens)]
}

// Prefill returns the time of a pass that only computes prompts.
func (p *Parameters) Prefill(batch, isl, prefix int) float64 {
	return p.Step(promptsStep(batch, isl, prefix))
}

// Decode returns the time of a pass that only decodes.
func (p *Parameters) Decode(batch, _, context, _ int) float64 {
	return p.Step(decodesStep(batch, context))
}

// check returns an error for parameters that do not give valid times.
func (p *Parameters) check() error {
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"base_s", p.Base}, {"weights_s", p.Weights}, {"token_s", p.Token}, {"pair_s", p.Pair},
		{"request_s", p.Request}, {"context_s", p.Context}, {"mixed_context_s", p.Mixed}, {"mixed_base_s", p.MixedBase},
		{"experts_s", p.Experts}, {"expert_share", p.ExpertShare}, {"network_s", p.Network},
		{"piecewise_base_s", p.PiecewiseBase}, {"eager_base_s", p.EagerBase},
	} {
		if !(f.value >= 0) || math.IsInf(f.value, 0) {
			return fmt.Errorf("%s is %v, must be a finite number >= 0", f.name, f.value)
		}
	}
	if p.ExpertShare > 1 {
		return fmt.Errorf("expert_share is %v, must be at most 1", p.ExpertShare)
	}
	if err := p.GraphMode.check(); err != nil {
		return err
	}
	if p.Base+p.Weights == 0 {
		return fmt.Errorf("base_s and weights_s are 0, must be one of them above 0")
	}
	if k := p.Knee; k != 0 && k != 1 && k != 2 && k != 4 {
		return fmt.Errorf("knee is %d, must be 1, 2 or 4", k)
	}
	for i, n := range p.Graphs {
		if n < 1 || i > 0 && n <= p.Graphs[i-1] {
			return fmt.Errorf("graph_sizes_tokens[%d] is %d, must be rising values from 1 on", i, n)
		}
	}
	return nil
}

// DefaultGraphs returns the graph sizes that vLLM captures for a maximum number of running requests. The sizes are 1,
// 2, 4, then steps of 8 below 256 and of 16 above, up to twice the maximum and at most 512 tokens.
func DefaultGraphs(maxSeqs int) []int {
	largest := 512
	if maxSeqs > 0 {
		largest = min(2*maxSeqs, largest)
	}
	var sizes []int
	for n := 1; n <= largest; {
		sizes = append(sizes, n)
		switch {
		case n < 4:
			n *= 2
		case n < 8:
			n = 8
		case n < 256:
			n += 8
		default:
			n += 16
		}
	}
	return sizes
}
