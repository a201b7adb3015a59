package options

import (
	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Keys of settings that are no engine arguments: together they name a model of
// pass times.
const (
	gpuKey   = "gpu"
	modelKey = "model"
)

// rooflinePath is the path of the model of pass times that --gpu and --model name.
func rooflinePath(settings []Setting) (path string, ok bool) {
	gpu, model := byKey(GivenOf(settings), gpuKey), byKey(GivenOf(settings), modelKey)
	if gpu == nil || model == nil {
		return "", false
	}
	return timing.RooflinePath(gpu.String(), model.String(), 1), true
}

// checkRoofline refuses half of a name, one that nothing bears, and a profile
// beside it.
func (o *Options) checkRoofline() error {
	gpu, model := o.Changed("gpu"), o.Changed("model")
	switch {
	case gpu && !model:
		return o.Only("gpu", "with --model")
	case model && !gpu:
		return o.Only("model", "with --gpu")
	}
	if name := o.FirstChanged("timing-profile", "planner-profile-data"); gpu && name != "" {
		return o.Only("gpu", "without --"+name)
	}
	if o.Changed("timing-profile") && o.Changed("planner-profile-data") {
		return o.Only("timing-profile", "without --planner-profile-data, its other name")
	}
	path, ok := rooflinePath(o.Engine.Settings)
	if !ok {
		return nil
	}
	if _, err := timing.Load(path); err != nil {
		return cli.Usagef("--gpu and --model: %v", err)
	}
	return nil
}
