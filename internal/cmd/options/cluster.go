package options

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/endpointpicker"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router/policy"
)

// cluster has the flags for the numbers of workers and for routing requests.
type cluster struct {
	*shared
	picker                                 string   // path of an endpoint picker configuration
	skip                                   []string // plugins of picker to skip
	Workers, PrefillWorkers, DecodeWorkers int
	count                                  workerCount // value of --workers: Workers and their kinds
	Router                                 routerFlag
	policy                                 string // path of a router policy
	process                                policy.Process
	admission                              string    // path of an admission
	signals                                [2]string // delays and intervals of signals
	scale                                  string
	changes                                []string
	mayChange                              bool // changes without a flag are possible
	alone                                  bool // without changes the router has only one worker
	faults                                 string
	autoscale                              string    // path of an autoscaler
	warm                                   string    // path of the initial cache contents
	speeds                                 [3]string // speeds of all workers, prefill workers and decode workers
	Half                                   bool      // the options are for a worker of one of two pools
	pd                                     pd
	aic                                    engineargs.AIC
	aicFlags                               []string
}

func (c *cluster) bindFlags(fs *pflag.FlagSet) {
	c.mode = cli.Choice{Names: []string{"offline", "online", "cluster"}, Value: "offline"}
	c.Router.Choice = RouterChoice()
	c.count.all, c.Workers = &c.Workers, 1
	fs.Var(&c.count, "workers", "number `N` of aggregated workers, or a mix of kinds, as h100:4,l40s:8")
	fs.IntVar(&c.PrefillWorkers, "prefill-workers", 1, "number `N` of prefill workers")
	fs.IntVar(&c.DecodeWorkers, "decode-workers", 1, "number `N` of decode workers")
	for i, prefix := range speedPrefixes() {
		fs.StringVar(&c.speeds[i], prefix+"worker-speed", "", "relative `speeds` of "+[]string{"the workers", "the prefill workers", "the decode workers"}[i]+", one per worker, as 1,1,0.84,1")
	}
	fs.StringVar(&c.picker, pickerFlag, "", "`file` of an EndpointPickerConfig: its filters, scorers and flow control route the requests")
	fs.StringSliceVar(&c.skip, endpointpicker.SkipFlag, nil, "`plugins` of the --endpoint-picker file to omit, by name or type, as token-producer,latency-scorer")
	fs.Var(&c.Router, "router", "routing policy: "+strings.Join(plainPolicies(), ", ")+", another `name` in docs/router.md, or NAME.yaml")
	fs.StringVar(&c.policy, policyFlag, "", "`file` of a router policy: scorers, filters and a picker (docs/policies.md)")
	bindProcess(fs, &c.process)
	fs.StringVar(&c.admission, "admission", "", "`file` of admission rules, which delay or reject requests by load (docs/policies.md)")
	for i, part := range signalParts() {
		fs.StringVar(&c.signals[i], part.flag, "", part.help)
	}
	fs.String("engine-args", "", "engine arguments of all workers: a `JSON` object, or @file; replay settings lists the keys")
	fs.String("prefill-engine-args", "", "engine arguments of prefill workers only: a `JSON` object, or @file")
	fs.String("decode-engine-args", "", "engine arguments of decode workers only: a `JSON` object, or @file")
	fs.StringVar(&c.scale, "scale", "", "YAML `file` that changes the number of workers over time: a list of\n{at: 90s, workers: 4}, with prefill: and decode: instead of workers: for two pools")
	fs.StringArrayVar(&c.changes, changeFlag, nil, "change settings at a `time`, as at=5m,workers=10,router=p2c; repeatable (docs/sweep.md)")
	fs.StringVar(&c.faults, "faults", "", "YAML `file` of faults and the handling of lost requests, or its\ntext: '[{at: 10m, worker: 3, what: dies, back: 60s}]'")
	fs.StringVar(&c.autoscale, "autoscale", "", "YAML `file` of an autoscaler, which changes the number of workers, or its text:\n'{min: 2, max: 8, metrics: [{metric: in_flight, target: 8}]}' (docs/autoscaling.md)")
	fs.StringVar(&c.warm, "warm-caches", "", "`file` of prefix caches that workers start with, written by --save-caches (docs/sweep.md)")
	c.pd.bindFlags(fs)
	fs.Var(&c.mode, "mode", "clock of the replay, by `name`: offline (logical clock), online (real time) or cluster (real time, with worker processes)")
	c.aicFlags = cli.BindNamed(fs, func(fs *pflag.FlagSet) {
		fs.StringVar(&c.aic.Backend, "aic-backend", "", "")
		fs.StringVar(&c.aic.System, "aic-system", "", "")
		fs.StringVar(&c.aic.BackendVersion, "aic-backend-version", "", "")
		fs.IntVar(&c.aic.TPSize, "aic-tp-size", 1, "")
		fs.StringVar(&c.aic.ModelPath, "aic-model-path", "", "")
	})
	cli.Hide(fs, c.aicFlags...)
}

// RouterChoice returns a flag for the name of a router.
func RouterChoice() cli.Choice {
	c := cli.Choice{Value: string(policy.All()[0].Name)}
	for _, p := range policy.All() {
		c.Names = append(c.Names, string(p.Name))
		c.Hidden = append(c.Hidden, p.Alias)
	}
	return c
}

// speedPrefixes returns the prefixes of the flags for worker speeds: all workers, prefill workers and decode workers.
func speedPrefixes() [3]string { return [3]string{"", "prefill-", "decode-"} }

// fillSpeeds sets the speeds of workers in spec.
func (c *cluster) fillSpeeds(spec *replay.Spec) error {
	for i, prefix := range speedPrefixes() {
		flag, text := prefix+"worker-speed", c.speeds[i]
		switch {
		case text == "":
			continue
		case spec.Disaggregated() != (i > 0) && i > 0:
			return c.Only(flag, "with --prefill-workers and --decode-workers")
		case spec.Disaggregated() != (i > 0):
			return c.Only(flag, "without --prefill-workers and --decode-workers")
		case c.scale != "":
			return c.Only(flag, "without --scale")
		case c.IsCluster():
			return c.Only(flag, "without --mode cluster")
		}
		parts := strings.Split(text, ",")
		pool := max(i-1, 0)
		if count := spec.Pools[pool].Count; len(parts) != count {
			return cli.Usagef("--%s=%s: %d speeds for %d workers, must be one for each", flag, text, len(parts), count)
		}
		if spec.WorkerSpeeds == nil {
			spec.WorkerSpeeds = make([][]float64, len(spec.Pools))
		}
		for _, part := range parts {
			speed, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
			if err != nil || !(speed > 0) || math.IsInf(speed, 0) {
				return cli.Usagef("--%s=%s: %q is no speed, expected numbers above 0", flag, text, part)
			}
			spec.WorkerSpeeds[pool] = append(spec.WorkerSpeeds[pool], speed)
		}
	}
	return nil
}

// routerInfo returns the properties of the selected router.
func (c *cluster) routerInfo() policy.Info { return policy.Name(c.Router.Value).Info() }

// plainPolicies returns the names of all policies that are not gateway policies.
func plainPolicies() []string {
	var all []string
	for _, p := range policy.All() {
		if !p.Gateway {
			all = append(all, string(p.Name))
		}
	}
	return all
}

// fillRouter sets the router in spec.
func (o *Options) fillRouter(spec *replay.Spec) error {
	if err := o.Cluster.fillProcess(spec); err != nil || spec.Router != nil {
		return err
	}
	if path := o.Cluster.policyPath(); path != "" {
		return o.Cluster.fillPolicy(spec, path)
	}
	name, err := policy.Parse(o.Cluster.Router.Value)
	if err != nil {
		return err
	}
	if name.Info().Gateway && o.Changed("router-config") {
		return o.fillGateway(spec, name)
	}
	config, err := o.RouterConfig()
	if err != nil {
		return err
	}
	spec.Router = name.Configure(config)
	switch {
	case o.Cluster.picker != "":
		return o.fillPicker(spec)
	case len(o.Cluster.skip) > 0:
		return o.Only(endpointpicker.SkipFlag, "with --"+pickerFlag)
	}
	alone := name.Info().MinWorkers > o.Cluster.Workers && o.Cluster.scale == "" && o.Cluster.autoscale == "" && len(o.Cluster.changes) == 0 && !o.TwoPools()
	if o.Cluster.alone = alone && !o.Reference && o.compat == "" && !o.IsLive() && !o.IsCluster(); o.Cluster.alone && !o.Cluster.mayChange {
		spec.Router = policy.RoundRobin // a single worker requires no choice
	}
	return nil
}

// fillEstimator sets the estimator for prefill load in spec.
func (c *cluster) fillEstimator(spec *replay.Spec) error {
	name := c.FirstChanged(c.aicFlags...)
	if name == "" {
		return nil
	}
	if c.aic.Backend == "" || c.aic.System == "" || c.aic.ModelPath == "" {
		return cli.Usagef("--%s requires --aic-backend, --aic-system and --aic-model-path", name)
	}
	spec.PrefillLoad = c.aic
	return nil
}

// checkCluster returns an error for flags with invalid values or without effect on the cluster. Command lines of the
// reference are not checked.
func (o *Options) checkCluster() error {
	c := &o.Cluster
	info := c.routerInfo()
	counts := []string{"workers", "prefill-workers", "decode-workers"}
	if o.Cluster.isMixed() {
		counts = counts[1:]
	}
	return cmp.Or(o.CheckLeast(1, counts...), o.Check(
		cli.Needs(!o.TwoPools(), "without --prefill-workers and --decode-workers", "workers"),
		cli.Needs(c.scale != "" || c.mayChange || len(c.changes) > 0 || c.autoscale != "" || c.faults != "", "with --scale, --change, --autoscale or --faults", "startup-time", "prefill-startup-time", "decode-startup-time"),
		cli.Needs(info.Caches, "with --router kv", RouterFlags()...),
		cli.Needs(info.Caches || info.Gateway, "with --router kv, cache_aware, consistent_hash or sticky_least_loaded", "router-config"),
	))
}
