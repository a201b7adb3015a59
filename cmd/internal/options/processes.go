package options

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// processes holds the flags of a replay on workers that are processes.
type processes struct {
	Spawn             int
	Endpoint, Prefill string
	Migrations        int
	Startup           time.Duration
	Runtime           RuntimeFlags
}

func (p *processes) bindFlags(fs *pflag.FlagSet) {
	fs.IntVar(&p.Spawn, "spawn", 0, "start this `number` of workers, etcd and NATS (unless --etcd and --nats tell where they are), and stop them at the end; 0: workers are there")
	fs.StringVar(&p.Endpoint, "endpoint", "dynamo.backend.generate", "`name` of the workers' endpoint: namespace.component.endpoint")
	fs.StringVar(&p.Prefill, "prefill-endpoint", "", "`name` of the prefill workers' endpoint; the others decode then")
	fs.IntVar(&p.Migrations, "migration-limit", 0, "`number` of times a request may go on at another worker when its own fails")
	fs.DurationVar(&p.Startup, "startup-timeout", time.Minute, "`time` for workers to be there")
	p.Runtime.Bind(fs)
	for _, name := range p.RuntimeNames() {
		fs.Lookup(name).Hidden = name != "etcd" && name != "nats"
	}
}

// RuntimeNames are the flags that say how to take part in a cluster.
func (p *processes) RuntimeNames() []string {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(RuntimeFlags).Bind(fs)
	var names []string
	fs.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// processFlags are those that only a replay on processes knows.
func processFlags() []string {
	return []string{"spawn", "endpoint", "prefill-endpoint", "migration-limit", "startup-timeout"}
}

// IsCluster reports whether the replay asks workers that are processes.
func (o *Options) IsCluster() bool { return o.Cluster.mode.Value == "cluster" }

// checkProcesses refuses flags of no effect in cluster mode, and those of cluster
// mode in others.
func (o *Options) checkProcesses() error {
	p := &o.Processes
	if !o.IsCluster() {
		own := append(processFlags(), p.RuntimeNames()...)
		if name := o.FirstChanged(own...); name != "" {
			return o.Only(name, "with --mode cluster")
		}
		return nil
	}
	if name := o.FirstChanged("scale", "out", "digest", "compat"); name != "" {
		return o.Only(name, "with --mode offline")
	}
	if name := o.FirstChanged("requests", "timeline", "online-barrier", "online-disagg"); name != "" {
		return o.Only(name, "with --mode online")
	}
	switch {
	case p.Spawn < 0:
		return o.Refuse("spawn", "at least 0")
	case p.Migrations < 0:
		return o.Refuse("migration-limit", "at least 0")
	case p.Startup <= 0:
		return o.Refuse("startup-timeout", "a time above 0")
	case o.Changed("workers"):
		return o.Only("workers", "where workers are not processes; --spawn starts processes")
	case o.Limits.oversize.Value == "reject":
		return o.Refuse("oversize", "error with --mode cluster")
	case o.Changed("deadline") && o.Live.Deadline <= 0:
		return o.Refuse("deadline", "a time above 0")
	case p.Spawn > 0 && o.FirstChanged("endpoint", "prefill-endpoint") != "":
		return o.Only(o.FirstChanged("endpoint", "prefill-endpoint"), "without --spawn, whose workers have endpoints of their own")
	case p.Spawn == 0:
		return o.checkOthers()
	case o.TwoPools() && p.Spawn != o.Cluster.PrefillWorkers+o.Cluster.DecodeWorkers:
		return o.Refuse("spawn", fmt.Sprintf("%d, that of --prefill-workers and --decode-workers together", o.Cluster.PrefillWorkers+o.Cluster.DecodeWorkers))
	}
	return nil
}

// checkOthers refuses what cannot be said of workers that are there already.
func (o *Options) checkOthers() error {
	if err := OnlyCalls(o.Set); err != nil {
		return err
	}
	names := []string{"engine-args", "prefill-engine-args", "decode-engine-args", "prefill-workers", "decode-workers"}
	for _, all := range [][]Setting{o.Engine.Settings, o.Engine.Own[0], o.Engine.Own[1]} {
		for _, s := range all {
			names = append(names, s.Name)
		}
	}
	if name := o.FirstChanged(names...); name != "" {
		return o.Only(name, "with --spawn, where workers are not there yet")
	}
	return nil
}
