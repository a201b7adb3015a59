package timing

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler/hardware"
)

// RooflinePrefix begins the path of a model that no file holds: behind it stands what
// hardware.ParseFit reads.
const RooflinePrefix = "roofline:"

// Roofline returns the profile of a model on GPUs by their data sheets: a place to start
// from when nothing has been measured. It is put together as the parts of
// hardware.Pass say.
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

// parseRoofline returns the profile of a path without its prefix.
func parseRoofline(path string) (Profile, error) {
	f, err := hardware.ParseFit(path)
	if err != nil {
		return Profile{}, fmt.Errorf("%s%w", RooflinePrefix, err)
	}
	return Roofline(&f), nil
}
