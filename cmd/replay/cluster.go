package main

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router/policy"
)

// cluster holds the flags that say how many workers there are and how requests
// reach them.
type cluster struct {
	mode                                   choice
	workers, prefillWorkers, decodeWorkers int
	router                                 choice
	engineArgs, prefillArgs, decodeArgs    string
	scale                                  string
	half                                   bool // it is a worker of one of two pools
	aic                                    engineargs.AIC
}

func (c *cluster) bind(fs *pflag.FlagSet) {
	c.mode = choice{names: []string{"offline", "online", "cluster"}, value: "offline"}
	c.router = routerChoice()
	fs.IntVar(&c.workers, "workers", 1, "`number` of workers that prefill and decode")
	fs.IntVar(&c.prefillWorkers, "prefill-workers", 1, "`number` of workers that prefill only")
	fs.IntVar(&c.decodeWorkers, "decode-workers", 1, "`number` of workers that decode only")
	fs.Var(&c.router, "router", "how requests find workers, by `name`: "+either(c.router.names))
	fs.StringVar(&c.engineArgs, "engine-args", "", "engine arguments of all workers: a `JSON` object with the keys of the reference, or @file")
	fs.StringVar(&c.prefillArgs, "prefill-engine-args", "", "engine arguments of prefill workers only: `JSON` or @file")
	fs.StringVar(&c.decodeArgs, "decode-engine-args", "", "engine arguments of decode workers only: `JSON` or @file")
	fs.StringVar(&c.scale, "scale", "", "YAML `file` that says when the number of workers changes: a list of\n{at: 90s, workers: 4}, or with prefill: and decode: in place of workers:")
	fs.Var(&c.mode, "mode", "clock, by `name`: offline, a logical one; online, the real one, where workers really wait as long as passes take; cluster, that with workers that are processes")
	fs.StringVar(&c.aic.Backend, "aic-backend", "", "")
	fs.StringVar(&c.aic.System, "aic-system", "", "")
	fs.StringVar(&c.aic.BackendVersion, "aic-backend-version", "", "")
	fs.IntVar(&c.aic.TPSize, "aic-tp-size", 1, "")
	fs.StringVar(&c.aic.ModelPath, "aic-model-path", "", "")
	for _, name := range aicFlags() {
		fs.Lookup(name).Hidden = true
	}
}

// routerChoice returns a flag that takes the name of a router.
func routerChoice() choice {
	c := choice{value: string(policy.All()[0].Name)}
	for _, p := range policy.All() {
		c.names = append(c.names, string(p.Name))
		c.hidden = append(c.hidden, p.Alias)
	}
	return c
}

func aicFlags() []string {
	return []string{"aic-backend", "aic-system", "aic-backend-version", "aic-tp-size", "aic-model-path"}
}

// fillCluster says in spec what the cluster is.
func (o *options) fillCluster(spec *replay.Spec) error {
	c := &o.cluster
	var err error
	if spec.Router, err = policy.Parse(c.router.value); err != nil {
		return err
	}
	if err := o.fillEngines(spec); err != nil {
		return err
	}
	if err := o.fillScale(spec); err != nil {
		return err
	}
	if err := o.fillRouter(spec); err != nil {
		return err
	}
	return o.fillEstimator(spec)
}

func (o *options) fillEstimator(spec *replay.Spec) error {
	if o.firstChanged(aicFlags()...) == "" {
		return nil
	}
	aic := o.cluster.aic
	if aic.Backend == "" || aic.System == "" || aic.ModelPath == "" {
		return usagef("--%s: want --aic-backend, --aic-system and --aic-model-path together", o.firstChanged(aicFlags()...))
	}
	spec.PrefillLoad = aic
	return nil
}

// checkCluster refuses flags of our commands that are out of range or of no
// effect on the chosen cluster.
func (o *options) checkCluster() error {
	c := &o.cluster
	if err := o.checkBounds(
		bound{"workers", float64(c.workers), 1}, bound{"prefill-workers", float64(c.prefillWorkers), 1},
		bound{"decode-workers", float64(c.decodeWorkers), 1},
	); err != nil {
		return err
	}
	if o.changed("workers") && o.twoPools() {
		return o.only("workers", "where workers both prefill and decode")
	}
	if c.router.value == "kv" && c.workers < 2 && c.scale == "" && !o.twoPools() && !o.isLive() && !o.isCluster() {
		return o.refuse("router", "at least 2 workers with it: --workers 2")
	}
	if name := o.firstChanged("startup-time", "prefill-startup-time", "decode-startup-time"); name != "" && c.scale == "" {
		return o.only(name, "with --scale")
	}
	if name := o.firstChanged(append(routerFlags(), "router-config")...); name != "" && c.router.value != "kv" {
		return o.only(name, "with --router kv")
	}
	return nil
}

// refusedInput turns the error of a wrong command line into one of its input.
func refusedInput(err error) error { return errors.New(err.Error()) }
