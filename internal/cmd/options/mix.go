package options

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/hardware"
)

// workerCount is a flag for a number of workers, or for a mix of several kinds of workers: h100:4,l40s:8.
type workerCount struct {
	all   *int
	mix   []kindCount // nil: a single number
	text  string      // text of the flag
	plain bool        // mixes are not supported
}

// kindCount is the number of workers of a kind.
type kindCount struct {
	name  string
	count int
}

func (w *workerCount) String() string { return cmp.Or(w.text, "1") }
func (w *workerCount) Type() string   { return "workers" }

func (w *workerCount) Set(text string) error {
	wanted := errors.New("must be an integer, or a mix as h100:4,l40s:8")
	if w.plain {
		wanted = errors.New("must be an integer")
	}
	if w.plain || !strings.Contains(text, ":") {
		n, err := strconv.ParseInt(text, 0, 0)
		if err != nil {
			return wanted
		}
		*w.all, w.mix, w.text = int(n), nil, text
		return nil
	}
	var mix []kindCount
	sum := 0
	for part := range strings.SplitSeq(text, ",") {
		at := strings.LastIndex(part, ":")
		if at < 1 {
			return wanted
		}
		name := strings.TrimSpace(part[:at])
		n, err := strconv.ParseInt(part[at+1:], 0, 32)
		switch {
		case err != nil || n < 1:
			return excerpt.Errorf("must be at least 1 worker of %s, in a mix as h100:4,l40s:8", name)
		case slices.ContainsFunc(mix, func(k kindCount) bool { return k.name == name }):
			return excerpt.Errorf("must be %s once", name)
		}
		mix = append(mix, kindCount{name, int(n)})
		sum += int(n)
	}
	*w.all, w.mix, w.text = sum, mix, text
	return nil
}

// fileNames is a flag for paths of files. The values of the flag are lists with commas, and the flag may be repeated.
type fileNames []string

func (f *fileNames) String() string { return strings.Join(*f, ",") }
func (f *fileNames) Type() string   { return "path" }

func (f *fileNames) Set(text string) error {
	*f = append(*f, strings.Split(text, ",")...)
	return nil
}

// isMixed reports whether the workers are a mix of several kinds.
func (c *cluster) isMixed() bool { return len(c.count.mix) > 0 }

// CheckAlike returns an error for a mix. CheckAlike is used by commands that do not support mixes.
func (o *Options) CheckAlike(command string) error {
	if !o.Cluster.isMixed() {
		return nil
	}
	return o.Refuse("workers", "a number with "+command+", which takes no mix")
}

// fillMix sets a pool with several kinds of workers in spec. Each kind has the common flags and the settings of its
// deployment. Without deployments, a kind has its GPU.
func (o *Options) fillMix(spec *replay.Spec) error {
	if err := o.checkMix(); err != nil {
		return err
	}
	files, err := o.Config.deploymentsByName()
	if err != nil {
		return err
	}
	var kinds []replay.Kind
	for _, k := range o.Cluster.count.mix {
		own, err := o.kindOptions(k.name, files)
		if err != nil {
			return err
		}
		engine, err := own.kindEngine()
		if err != nil {
			return fmt.Errorf("workers of %s: %w", k.name, err)
		}
		for _, text := range own.Config.Overruled {
			o.Config.Overruled = append(o.Config.Overruled, k.name+": "+text)
		}
		kinds = append(kinds, replay.Kind{Name: k.name, Engine: *engine, Count: k.count})
	}
	for _, path := range o.Config.deployments {
		name := deploymentName(path)
		if !slices.ContainsFunc(kinds, func(k replay.Kind) bool { return k.Name == name }) {
			return cli.Usagef("--deployment=%s: --workers=%s has none of %s, expected how many there are", path, o.Cluster.count.text, name)
		}
	}
	spec.Pools = []replay.Pool{replay.Mix(kinds)}
	return nil
}

// checkMix returns an error if a mix is not supported with the other flags.
func (o *Options) checkMix() error {
	switch c := &o.Cluster; {
	case o.compat != "":
		return o.Refuse("workers", "a number with --compat: the reference has no mixes")
	case c.scale != "":
		return o.Only("scale", "with workers that are all alike")
	}
	return nil
}

// deploymentName returns the name of the workers of a deployment: the name of the file without folders and extension.
func deploymentName(path string) string {
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}

// deploymentsByName returns the paths of deployments by the name of their workers.
func (c *config) deploymentsByName() (map[string]string, error) {
	files := map[string]string{}
	for _, path := range c.deployments {
		name := deploymentName(path)
		if first, ok := files[name]; ok {
			return nil, cli.Usagef("--deployment=%s: called %s, as %s is, expected files of different names", path, name, first)
		}
		files[name] = path
	}
	return files, nil
}

// kindOptions returns the options for one kind of workers.
func (o *Options) kindOptions(name string, files map[string]string) (*Options, error) {
	own := NewCellOptions()
	settings := slices.DeleteFunc(o.Settings(), func(s plan.Setting) bool { return s.Name == deploymentSetting || s.Name == "workers" })
	for _, s := range settings {
		if err := own.Set.Set(s.Name, s.Value); err != nil {
			return nil, err // this value was already accepted before
		}
	}
	own.Places, own.Spelled, own.workload = o.Places, o.Spelled, o.workload
	path, known := files[name]
	switch {
	case known:
		own.Config.deployments = fileNames{path}
		return own, own.Config.Apply(own)
	case len(files) > 0:
		names := slices.Sorted(maps.Keys(files))
		return nil, cli.Usagef("--workers=%s: no deployment is called %s, must be %s", o.Cluster.count.text, name, cli.Either(names))
	case o.Changed("gpu"):
		return nil, o.Only("gpu", "without --workers="+o.Cluster.count.text+", which names GPUs")
	}
	if err := o.Engine.checkGPU(name); err != nil {
		return nil, cli.Usagef("--workers=%s: must be names of --deployment files, or of GPUs: %v", o.Cluster.count.text, err)
	}
	if !o.Changed("model") {
		return nil, cli.Usagef("--workers=%s: GPUs without a model, requires --model", o.Cluster.count.text)
	}
	return own, own.Set.Set("gpu", name)
}

// kindSettings returns the settings of the deployments of a mix. Each setting has the name of its deployment as a
// prefix.
func (o *Options) kindSettings() ([]plan.Setting, error) {
	files, err := o.Config.deploymentsByName()
	if err != nil {
		return nil, err
	}
	var all []plan.Setting
	for _, name := range slices.Sorted(maps.Keys(files)) {
		own, err := o.kindOptions(name, files)
		if err != nil {
			return nil, err
		}
		own.Set.Visit(func(f *pflag.Flag) {
			if !o.Changed(f.Name) {
				all = append(all, plan.Setting{Name: name + "." + f.Name, Value: f.Value.String()})
			}
		})
	}
	return all, nil
}

// checkGPU returns an error for a GPU that is neither in the tables nor in the user's file.
func (e *engine) checkGPU(name string) (err error) {
	var all []hardware.GPU
	if path := HardwareOf(e.Flags).Text("gpu-file"); path != "" {
		if all, err = hardware.ReadGPUs(path); err != nil {
			return err
		}
	}
	_, err = hardware.FindGPU(name, all)
	return err
}

// kindEngine returns the engine for the options of one kind of workers.
func (o *Options) kindEngine() (*engineargs.Args, error) {
	p := Pool{Flag: "engine-args"}
	if err := o.ParseEngine(&p); err != nil {
		return nil, err
	}
	return p.Args, o.CheckEngines([]Pool{p})
}
