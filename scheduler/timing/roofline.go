package timing

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler/hardware"
)

// Roofline returns the profile of a model on GPUs from their data sheets, for use without measurements. Roofline
// combines the parts of hardware.Pass.
func Roofline(f *hardware.Fit) Profile {
	p := f.Pass()
	profile := Profile{
		Form: "roofline", Version: ProfileVersion,
		Source: fmt.Sprintf("data sheets of %s and %s, %d GPUs: nothing was measured", f.GPU.Name, f.Model.Name, f.GPUs()),
		Parameters: Parameters{
			Base: p.Base, MixedBase: p.MixedBase, Request: p.Request, Weights: p.Weights, Experts: p.Experts, ExpertShare: p.Share,
			Token: p.Token, Pair: p.Pair, Context: p.Context, Mixed: p.Context, Network: p.Network,
		},
	}
	if !f.Eager() {
		profile.Parameters.Graphs = DefaultGraphs(f.MaxSeqs)
	}
	return profile
}
