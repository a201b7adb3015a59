package clusterrun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/live/cmd/replay-live/cluster"

	remotes "github.com/replay-llm/replay/live/cluster"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
	"github.com/replay-llm/replay/live/telemetry"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/harness"

	routes "github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/online"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/schema"
)

// processRun is a cluster of processes for one replay.
type processRun struct {
	o      *options.Options
	s      cli.Streams
	spec   *replay.Spec
	config drt.Config

	servers *stack.Stack // nil if existing servers are used
	fleet   *remotes.Fleet
	rt      *drt.Runtime
	session *remotes.Session
}

// Run replays spec on a cluster of processes.
func Run(ctx context.Context, s cli.Streams, o *options.Options, spec *replay.Spec, watched replay.Streams) (_ *harness.Result, err error) {
	s.EndInOwnTime()
	x := &processRun{o: o, s: s, spec: spec}
	var workload *loadgen.Workload
	opened := watched.Opened
	watched.Opened = func(w *loadgen.Workload) {
		workload = w
		if opened != nil {
			opened(w)
		}
	}
	begin := func(rec *online.Recorder, clock *online.Clock) (online.Target, error) {
		if err := x.startCluster(ctx); err != nil {
			return nil, err
		}
		return remotes.NewTarget(workload, x.session, rec, clock), nil
	}
	defer func() { err = errors.Join(err, x.stopCluster(ctx)) }()
	deadline, _ := o.RealEnd()
	r, err := spec.Drive(ctx, watched, replay.Live{Pace: online.Pace{Precise: o.Live.Precise.Value == "spin", Deadline: deadline}}, begin)
	if err != nil {
		return nil, err
	}
	remotes.List(r)
	return r, nil
}

// startCluster starts the servers and workers of --spawn, and waits for all workers.
func (x *processRun) startCluster(ctx context.Context) (err error) {
	ctx, release := context.WithTimeoutCause(ctx, x.o.Processes.Startup, fmt.Errorf("not within %v", x.o.Processes.Startup))
	defer release()
	if err := x.reachServers(ctx); err != nil {
		return err
	}
	o, err := x.routingOptions()
	if err != nil {
		return err
	}
	if err := cluster.GiveCards(&x.config, "", listEndpoints(&o)...); err != nil {
		return err
	}
	x.config.CallsOnly = true
	if x.rt, err = drt.Connect(ctx, x.config); err != nil {
		return err
	}
	o.Routing.Dial = x.rt.Links().DialPlain
	if x.o.Processes.Spawn > 0 {
		if err := x.spawnWorkers(&o); err != nil {
			return err
		}
	}
	x.session, err = remotes.Open(ctx, x.rt, o)
	return err
}

// listEndpoints returns the endpoints of the workers.
func listEndpoints(o *remotes.Options) []string {
	names := []string{o.Workers.String()}
	if o.Prefill != nil {
		names = append(names, o.Prefill.String())
	}
	return names
}

// reachServers configures etcd and NATS. With --spawn it starts etcd and NATS, unless addresses are given.
func (x *processRun) reachServers(ctx context.Context) (err error) {
	p := &x.o.Processes
	if x.config, err = cluster.Config(&p.Runtime); err != nil {
		return err
	}
	if x.config.Discovery == drt.Static && p.Spawn > 0 {
		return cli.Usagef("--spawn requires --discovery etcd, where workers register")
	}
	given := p.Runtime.Etcd != "" || p.Runtime.Nats != "" || os.Getenv("ETCD_ENDPOINTS") != "" || os.Getenv("NATS_SERVER") != ""
	if p.Spawn == 0 || given {
		return nil
	}
	if x.servers, err = stack.Start(ctx, stack.Options{}); err != nil {
		return err
	}
	x.config.Etcd.Endpoints, x.config.NATS.URL = []string{x.servers.EtcdURL()}, x.servers.NATSURL()
	return nil
}

// routingOptions returns the workers to call and the routing policy.
func (x *processRun) routingOptions() (remotes.Options, error) {
	p := &x.o.Processes
	o := remotes.Options{Routing: routes.Options{
		Policy: x.spec.Choice().Info().Name, Router: router.DefaultConfig(), Seed: x.spec.Seed, Migrations: p.Migrations,
		Warn: telemetry.ThrottleWarnings(x.s.Warn),
	}}
	if c, ok := x.spec.Router.(*policy.Configured); ok {
		o.Routing.Router = c.Config
	}
	workers, prefill := p.Endpoint, p.Prefill
	if p.Spawn > 0 {
		// A new namespace separates these workers from other workers.
		own := fmt.Sprintf("replay-%d-%d", os.Getpid(), time.Now().UnixNano()%1e9)
		workers, prefill = own+".backend.generate", ""
		o.Count = p.Spawn
		if x.o.TwoPools() {
			prefill = own + ".prefill.generate"
			o.PrefillCount, o.Count = x.o.Cluster.PrefillWorkers, x.o.Cluster.DecodeWorkers
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
		return drt.Name{}, cli.Usagef("--%s=%s: must be namespace.component.endpoint", flag, text)
	}
	return drt.Name{Namespace: parts[0], Component: parts[1], Endpoint: parts[2]}, nil
}

// stopCluster stops all processes and servers that were started.
func (x *processRun) stopCluster(ctx context.Context) (err error) {
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

// spawned is a group of workers with the same flags.
type spawned struct {
	mode  string
	count int
	from  string         // the flag with their engine arguments
	own   []*schema.Flag // flags of this group only
}

// spawnWorkers starts the workers.
func (x *processRun) spawnWorkers(o *remotes.Options) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	x.fleet = remotes.NewFleet(x.s.Err)
	o.Fleet = x.fleet
	kinds := []spawned{{"agg", o.Count, "engine-args", nil}}
	if o.Prefill != nil {
		kinds = []spawned{
			{"prefill", o.PrefillCount, "prefill-engine-args", x.o.Engine.Own[0]},
			{"decode", o.Count, "decode-engine-args", x.o.Engine.Own[1]},
		}
	}
	for _, p := range kinds {
		args := append(x.workerArgs(o.Workers.Namespace, p.mode), x.engineArgs(p.from)...)
		for _, s := range schema.Given(p.own) {
			_, name, _ := strings.Cut(s.Flag, "-")
			args = append(args, flagText(name, s.String()))
		}
		for range p.count {
			if err := x.fleet.Start(program, args...); err != nil {
				return fmt.Errorf("worker: %w", err)
			}
		}
	}
	return nil
}

func flagText(name, value string) string { return "--" + name + "=" + value }

// workerArgs returns the flags of a worker, except those of its engine.
func (x *processRun) workerArgs(namespace, mode string) []string {
	args := []string{
		"worker", "--until-eof", "--grace=0s", flagText("namespace", namespace), flagText("disaggregation-mode", mode),
		flagText("context-length", fmt.Sprint(1<<30)),
	}
	// Workers read addresses and passwords in the environment from the environment, not from flags.
	if x.servers != nil || x.o.Processes.Runtime.Etcd != "" {
		args = append(args, flagText("etcd", strings.Join(x.config.Etcd.Endpoints, ",")))
	}
	if x.servers != nil || x.o.Processes.Runtime.Nats != "" {
		args = append(args, flagText("nats", x.config.NATS.URL))
	}
	if x.servers != nil { // all workers run on this machine
		args = append(args, "--response-host=127.0.0.1")
	}
	if x.o.Changed("precise") {
		args = append(args, flagText("precise", x.o.Live.Precise.Value))
	}
	for _, name := range x.o.Processes.RuntimeNames {
		if x.o.Changed(name) && name != "etcd" && name != "nats" && name != "response-port" {
			args = append(args, flagText(name, x.o.Set.Lookup(name).Value.String()))
		}
	}
	return args
}

// engineArgs returns the flags of a pool's engines. from is the flag with its engine arguments.
func (x *processRun) engineArgs(from string) []string {
	if !x.o.Changed(from) {
		from = "engine-args"
	}
	var args []string
	if x.o.Changed(from) {
		args = append(args, flagText("engine-args", x.o.Set.Lookup(from).Value.String()))
	}
	for _, s := range schema.Given(x.o.Engine.Flags) {
		args = append(args, flagText(s.Flag, s.String()))
	}
	return args
}
