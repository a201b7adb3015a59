package timing

import (
	"fmt"
	"strings"

	"github.com/replay-llm/replay/scheduler/hardware"
)

// Prefixes begin the paths of models that no file holds: by data sheets, and by measured operators.
// Behind them stands what hardware.ParseFit reads.
const (
	RooflinePrefix = "roofline:"
	SiliconPrefix  = "silicon:"
)

// CutFit returns the fit that the path of a model that no file holds names, and whether it is one.
func CutFit(path string) (name string, ok bool) {
	if name, ok = strings.CutPrefix(path, SiliconPrefix); ok {
		return name, true
	}
	return strings.CutPrefix(path, RooflinePrefix)
}

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

// loadFit returns the model of a path that no file holds.
func loadFit(path, name string) (Model, error) {
	f, err := hardware.ParseFit(name)
	if err != nil {
		return nil, fmt.Errorf("%s%w", strings.TrimSuffix(path, name), err)
	}
	if strings.HasPrefix(path, SiliconPrefix) {
		return loadMeasured(&f)
	}
	p := Roofline(&f)
	return &p.Parameters, nil
}
