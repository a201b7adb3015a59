package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/drt"
	"github.com/replay-llm/replay/drt/stack"
	routes "github.com/replay-llm/replay/engine/routing"
	"github.com/replay-llm/replay/replay"
	remotes "github.com/replay-llm/replay/replay/cluster"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/replay/online"
	"github.com/replay-llm/replay/router"
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
		if o.cluster.router.value == "random" {
			return o.refuse("router", "round_robin or kv without --mode cluster")
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

// processRun is a cluster of processes, for one replay.
type processRun struct {
	o      *options
	s      streams
	spec   *replay.Spec
	config drt.Config

	servers *stack.Stack // nil where others' are used
	fleet   *remotes.Fleet
	rt      *drt.Runtime
	session *remotes.Session
}

// runProcesses replays spec on processes.
func (l *liveRun) runProcesses(ctx context.Context, o *options, s streams, spec *replay.Spec, watched replay.Streams) (_ *offline.Result, err error) {
	s.endInOwnTime()
	x := &processRun{o: o, s: s, spec: spec}
	var target remotes.Wait
	opened := watched.Opened
	begin := func(rec *online.Recorder, clock *online.Clock) (online.Target, error) {
		if err := x.start(ctx); err != nil {
			return nil, err
		}
		return target(rec, clock)
	}
	watched.Opened = withWorkload(opened, &target, x)
	defer func() { err = errors.Join(err, x.stop(ctx)) }()
	r, err := spec.Drive(ctx, watched, replay.Live{Precise: o.live.precise.value == "spin", Deadline: o.live.deadline}, begin)
	if err != nil {
		return nil, err
	}
	remotes.List(r)
	l.ended = r
	return &offline.Result{Report: r.Report, Collector: r.Collector, Partial: r.Partial()}, nil
}

// start starts what is to be started, and waits until the workers are there.
func (x *processRun) start(ctx context.Context) (err error) {
	ctx, release := context.WithTimeoutCause(ctx, x.o.processes.startup, fmt.Errorf("not within %v", x.o.processes.startup))
	defer release()
	if err := x.reach(ctx); err != nil {
		return err
	}
	o, err := x.options()
	if err != nil {
		return err
	}
	if x.rt, err = drt.Connect(ctx, x.config); err != nil {
		return err
	}
	if x.o.processes.spawn > 0 {
		if err := x.spawn(&o); err != nil {
			return err
		}
	}
	x.session, err = remotes.Open(ctx, x.rt, o)
	return err
}

// reach makes etcd and NATS known, and starts them if nobody says where they are.
func (x *processRun) reach(ctx context.Context) (err error) {
	p := &x.o.processes
	if x.config, err = p.runtime.config(); err != nil {
		return err
	}
	given := p.runtime.etcd != "" || p.runtime.nats != "" || os.Getenv("ETCD_ENDPOINTS") != "" || os.Getenv("NATS_SERVER") != ""
	if p.spawn == 0 || given || x.config.Discovery == drt.Static {
		return nil
	}
	if x.servers, err = stack.Start(ctx, stack.Options{}); err != nil {
		return err
	}
	x.config.Etcd.Endpoints, x.config.NATS.URL = []string{x.servers.EtcdURL()}, x.servers.NATSURL()
	return nil
}

// options say who is asked, and how workers are chosen.
func (x *processRun) options() (remotes.Options, error) {
	p := &x.o.processes
	o := remotes.Options{Routing: routes.Options{
		Mode: routes.Mode(x.o.cluster.router.value), Router: router.DefaultConfig(), Seed: x.spec.Seed, Migrations: p.migrations,
		Warn: func(text string) { fmt.Fprintf(x.s.err, "replay: warning: %s\n", text) },
	}}
	if x.spec.RouterConfig != nil {
		o.Routing.Router = *x.spec.RouterConfig
	}
	workers, prefill := p.endpoint, p.prefill
	if p.spawn > 0 {
		// Whatever else is there, these are alone in their namespace.
		own := fmt.Sprintf("replay-%d-%d", os.Getpid(), time.Now().UnixNano()%1e9)
		workers, prefill = own+".backend.generate", ""
		o.Count = p.spawn
		if x.o.twoPools() {
			prefill = own + ".prefill.generate"
			o.PrefillCount, o.Count = x.o.cluster.prefillWorkers, x.o.cluster.decodeWorkers
		}
	}
	var err error
	if o.Workers, err = endpointName("endpoint", workers); err == nil && prefill != "" {
		o.Prefill = new(drt.Name)
		*o.Prefill, err = endpointName("prefill-endpoint", prefill)
	}
	return o, err
}

func endpointName(flag, text string) (drt.Name, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return drt.Name{}, usagef("--%s=%s: want namespace.component.endpoint", flag, text)
	}
	return drt.Name{Namespace: parts[0], Component: parts[1], Endpoint: parts[2]}, nil
}

// stop takes down what was started.
func (x *processRun) stop(ctx context.Context) (err error) {
	ctx, release := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer release()
	if x.session != nil {
		x.session.Close()
	}
	if x.fleet != nil {
		err = x.fleet.Stop(ctx)
	}
	if x.rt != nil {
		err = errors.Join(err, x.rt.Close(ctx))
	}
	if x.servers != nil {
		err = errors.Join(err, x.servers.Stop())
	}
	return err
}
