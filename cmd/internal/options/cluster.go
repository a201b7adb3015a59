package options

import (
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router/policy"
)

// cluster holds the flags that say how many workers there are and how requests
// reach them.
type cluster struct {
	mode                                   cli.Choice
	Workers, PrefillWorkers, DecodeWorkers int
	Router                                 cli.Choice
	EngineArgs, prefillArgs, decodeArgs    string
	scale                                  string
	Half                                   bool // it is a worker of one of two pools
	aic                                    engineargs.AIC
	aicFlags                               []string
}

func (c *cluster) bindFlags(fs *pflag.FlagSet) {
	c.mode = cli.Choice{Names: []string{"offline", "online", "cluster"}, Value: "offline"}
	c.Router = RouterChoice()
	fs.IntVar(&c.Workers, "workers", 1, "`number` of workers that prefill and decode")
	fs.IntVar(&c.PrefillWorkers, "prefill-workers", 1, "`number` of workers that prefill only")
	fs.IntVar(&c.DecodeWorkers, "decode-workers", 1, "`number` of workers that decode only")
	fs.Var(&c.Router, "router", "how requests find workers, by `name`: "+cli.Either(c.Router.Names))
	fs.StringVar(&c.EngineArgs, "engine-args", "", "engine arguments of all workers: a `JSON` object with the keys of the reference, or @file")
	fs.StringVar(&c.prefillArgs, "prefill-engine-args", "", "engine arguments of prefill workers only: `JSON` or @file")
	fs.StringVar(&c.decodeArgs, "decode-engine-args", "", "engine arguments of decode workers only: `JSON` or @file")
	fs.StringVar(&c.scale, "scale", "", "YAML `file` that says when the number of workers changes: a list of\n{at: 90s, workers: 4}, or with prefill: and decode: in place of workers:")
	fs.Var(&c.mode, "mode", "clock, by `name`: offline, a logical one; online, the real one, where workers really wait as long as passes take; cluster, that with workers that are processes")
	c.aicFlags = cli.BindNamed(fs, func(fs *pflag.FlagSet) {
		fs.StringVar(&c.aic.Backend, "aic-backend", "", "")
		fs.StringVar(&c.aic.System, "aic-system", "", "")
		fs.StringVar(&c.aic.BackendVersion, "aic-backend-version", "", "")
		fs.IntVar(&c.aic.TPSize, "aic-tp-size", 1, "")
		fs.StringVar(&c.aic.ModelPath, "aic-model-path", "", "")
	})
	cli.Hide(fs, c.aicFlags...)
}

// RouterChoice returns a flag that takes the name of a router.
func RouterChoice() cli.Choice {
	c := cli.Choice{Value: string(policy.All()[0].Name)}
	for _, p := range policy.All() {
		c.Names = append(c.Names, string(p.Name))
		c.Hidden = append(c.Hidden, p.Alias)
	}
	return c
}

// routerInfo returns what is known of the router that is asked for.
func (c *cluster) routerInfo() policy.Info { return policy.Name(c.Router.Value).Info() }

// fillCluster enters the cluster into spec.
func (o *Options) fillCluster(spec *replay.Spec) error {
	c := &o.Cluster
	var err error
	if spec.Router, err = policy.Parse(c.Router.Value); err != nil {
		return err
	}
	for _, fill := range []func(*replay.Spec) error{o.fillEngines, o.fillScale, o.FillRouter} {
		if err := fill(spec); err != nil {
			return err
		}
	}
	name := o.FirstChanged(c.aicFlags...)
	if name != "" && (c.aic.Backend == "" || c.aic.System == "" || c.aic.ModelPath == "") {
		return cli.Usagef("--%s: want --aic-backend, --aic-system and --aic-model-path together", name)
	}
	if name != "" {
		spec.PrefillLoad = c.aic
	}
	return nil
}

// checkCluster refuses flags of our commands that are out of range or of no
// effect on the chosen cluster.
func (o *Options) checkCluster() error {
	c := &o.Cluster
	if err := o.CheckLeast(1, "workers", "prefill-workers", "decode-workers"); err != nil {
		return err
	}
	if o.Changed("workers") && o.TwoPools() {
		return o.Only("workers", "where workers both prefill and decode")
	}
	if c.routerInfo().MinWorkers > c.Workers && c.scale == "" && !o.TwoPools() && !o.IsLive() && !o.IsCluster() {
		return o.Refuse("router", "at least 2 workers with it: --workers 2")
	}
	if name := o.FirstChanged("startup-time", "prefill-startup-time", "decode-startup-time"); name != "" && c.scale == "" {
		return o.Only(name, "with --scale")
	}
	if name := o.FirstChanged(append(RouterFlags(), "router-config")...); name != "" && !c.routerInfo().Caches {
		return o.Only(name, "with --router kv")
	}
	return nil
}
