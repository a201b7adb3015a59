package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// processes holds the flags of a replay on workers that are processes.
type processes struct {
	spawn             int
	endpoint, prefill string
	migrations        int
	startup           time.Duration
	runtime           runtimeFlags
}

func (p *processes) bind(fs *pflag.FlagSet) {
	fs.IntVar(&p.spawn, "spawn", 0, "start this `number` of workers, etcd and NATS (unless --etcd and --nats tell where they are), and stop them at the end; 0: workers are there")
	fs.StringVar(&p.endpoint, "endpoint", "dynamo.backend.generate", "`name` of the workers' endpoint: namespace.component.endpoint")
	fs.StringVar(&p.prefill, "prefill-endpoint", "", "`name` of the prefill workers' endpoint; the others decode then")
	fs.IntVar(&p.migrations, "migration-limit", 0, "`number` of times a request may go on at another worker when its own fails")
	fs.DurationVar(&p.startup, "startup-timeout", time.Minute, "`time` for workers to be there")
	p.runtime.bind(fs)
	for _, name := range p.runtimeNames() {
		fs.Lookup(name).Hidden = name != "etcd" && name != "nats"
	}
}

// runtimeNames are the flags that say how to take part in a cluster.
func (p *processes) runtimeNames() []string {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(runtimeFlags).bind(fs)
	var names []string
	fs.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// processFlags are those that only a replay on processes knows.
func processFlags() []string {
	return []string{"spawn", "endpoint", "prefill-endpoint", "migration-limit", "startup-timeout"}
}

// isCluster says that the replay asks workers that are processes.
func (o *options) isCluster() bool { return o.cluster.mode.value == "cluster" }

// checkProcesses refuses flags of no effect in cluster mode, and those of cluster
// mode in others.
func (o *options) checkProcesses() error {
	p := &o.processes
	if !o.isCluster() {
		own := append(processFlags(), p.runtimeNames()...)
		if name := o.firstChanged(own...); name != "" {
			return o.only(name, "with --mode cluster")
		}
		return nil
	}
	if name := o.firstChanged("scale", "until", "out", "digest", "compat"); name != "" {
		return o.only(name, "with --mode offline")
	}
	if name := o.firstChanged("requests", "timeline", "online-barrier", "online-disagg"); name != "" {
		return o.only(name, "with --mode online")
	}
	switch {
	case p.spawn < 0:
		return o.refuse("spawn", "at least 0")
	case p.migrations < 0:
		return o.refuse("migration-limit", "at least 0")
	case p.startup <= 0:
		return o.refuse("startup-timeout", "a time above 0")
	case o.changed("workers"):
		return o.only("workers", "where workers are not processes; --spawn starts processes")
	case o.limits.oversize.value == "reject":
		return o.refuse("oversize", "error with --mode cluster")
	case o.changed("deadline") && o.live.deadline <= 0:
		return o.refuse("deadline", "a time above 0")
	case p.spawn > 0 && o.firstChanged("endpoint", "prefill-endpoint") != "":
		return o.only(o.firstChanged("endpoint", "prefill-endpoint"), "without --spawn, whose workers have endpoints of their own")
	case p.spawn == 0:
		return o.checkOthers()
	case o.twoPools() && p.spawn != o.cluster.prefillWorkers+o.cluster.decodeWorkers:
		return o.refuse("spawn", fmt.Sprintf("%d, that of --prefill-workers and --decode-workers together", o.cluster.prefillWorkers+o.cluster.decodeWorkers))
	}
	return nil
}

// checkOthers refuses what cannot be said of workers that are there already.
func (o *options) checkOthers() error {
	if err := onlyCalls(o.fs); err != nil {
		return err
	}
	names := []string{"engine-args", "prefill-engine-args", "decode-engine-args", "prefill-workers", "decode-workers"}
	for _, all := range [][]setting{o.engine.settings, o.engine.own[0], o.engine.own[1]} {
		for _, s := range all {
			names = append(names, s.name)
		}
	}
	if name := o.firstChanged(names...); name != "" {
		return o.only(name, "with --spawn, where workers are not there yet")
	}
	return nil
}
