package measured

import (
	"fmt"
	"path"

	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
)

// StartParameters returns the start of a search. The start is the parameters by the data sheet of the server's GPU,
// or of a common GPU if the GPU is unknown. The scale is found by simulation.
func StartParameters(s *Settings) timing.Parameters {
	gpu, err := hardware.FindGPU(s.GPU, nil)
	if err != nil {
		gpu, _ = hardware.FindGPU("h100", nil)
	}
	model, err := FindModel(s.Model)
	if err != nil {
		model, _ = hardware.FindModel("llama-3.1-8b")
	}
	f := s.FitOf(gpu, model)
	pass := f.Pass()
	p := timing.Parameters{
		Weights: 1.1 * pass.Weights, Experts: 1.1 * pass.Experts, ExpertShare: s.ExpertShare(pass.Share), Token: pass.Token, Pair: pass.Pair,
		Context: 0.8 * pass.Context, Mixed: 1.2 * pass.Context, MixedBase: 0.1 * pass.Weights, Graphs: s.Graphs,
	}
	s.setLaunches(&p, f)
	return p
}

// FitOf returns a model on the server's GPUs. Engines in lockstep share the experts.
func (s *Settings) FitOf(gpu hardware.GPU, model hardware.Model) hardware.Fit {
	f := hardware.Fit{GPU: gpu, Model: model, TP: max(s.TensorParallel, 1), PP: 1, DP: 1, KVBits: s.kvBits}
	if s.Lockstep {
		f.DP = max(s.DataParallel, 1)
	}
	return f
}

// ExpertShare returns the share of experts that one token from each engine reads in total. The argument each is the
// share that a single token reads.
func (s *Settings) ExpertShare(each float64) float64 {
	spared := 1.0
	for range s.Engines() {
		spared *= 1 - each
		if !s.Lockstep {
			break
		}
	}
	return 1 - spared
}

// FindModel returns a model by its name, or by a path that ends with its name.
func FindModel(name string) (hardware.Model, error) {
	m, err := hardware.FindModel(name)
	if err != nil {
		if last, e := hardware.FindModel(path.Base(name)); e == nil {
			return last, nil
		}
	}
	return m, err
}

// isKnownModel reports whether name is a model with a data sheet.
func isKnownModel(name string) bool {
	_, err := FindModel(name)
	return err == nil
}

// setLaunches sets the times of launches at the start of a search, from passes of f with and without graphs.
// setLaunches sets the times for the kinds of passes that the server can have in addition to decode passes.
func (s *Settings) setLaunches(p *timing.Parameters, f hardware.Fit) {
	base := func(graphs string) float64 {
		f.Graphs = graphs
		pass := f.Pass()
		return pass.Base
	}
	pieces := 0.0
	if s.GraphMode == "PIECEWISE" {
		pieces = base("piecewise") - base("full")
	}
	p.GraphMode, p.PiecewiseBase = s.GraphMode, pieces
	// If passes with prompts never use graphs, mixed_base_s already separates them from other passes.
	if n := len(s.Graphs); n == 0 || s.MaxBatchedTokens > s.Graphs[n-1] && s.GraphMode != "FULL_DECODE_ONLY" {
		p.EagerBase = base("none") - base("full") - pieces
	}
}

// TransferBytes returns the size of a token's KV cache in bytes, by the data sheet of the server's model.
func (s *Settings) TransferBytes() (int, error) {
	model, err := FindModel(s.Model)
	if err != nil {
		return 0, fmt.Errorf("the KV cache of a token depends on the model, requires it in the run or with --model: %w", err)
	}
	f := s.FitOf(hardware.GPU{}, model)
	return f.TransferBytes(), nil
}
