package clusterrun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/options"
	"github.com/replay-llm/replay/cmd/replay-live/cluster"

	remotes "github.com/replay-llm/replay/live/cluster"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/harness"

	routes "github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/online"
	"github.com/replay-llm/replay/router"
)

// processRun is a cluster of processes, for one replay.
type processRun struct {
	o      *options.Options
	s      cli.Streams
	spec   *replay.Spec
	config drt.Config

	servers *stack.Stack // nil where others' are used
	fleet   *remotes.Fleet
	rt      *drt.Runtime
	session *remotes.Session
}

// Run replays spec on processes.
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

// startCluster starts what is to be started, and waits until the workers are there.
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
	if x.rt, err = drt.Connect(ctx, x.config); err != nil {
		return err
	}
	if x.o.Processes.Spawn > 0 {
		if err := x.spawnWorkers(&o); err != nil {
			return err
		}
	}
	x.session, err = remotes.Open(ctx, x.rt, o)
	return err
}

// reachServers makes etcd and NATS known, and starts them if nobody says where they are.
func (x *processRun) reachServers(ctx context.Context) (err error) {
	p := &x.o.Processes
	if x.config, err = cluster.Config(&p.Runtime); err != nil {
		return err
	}
	given := p.Runtime.Etcd != "" || p.Runtime.Nats != "" || os.Getenv("ETCD_ENDPOINTS") != "" || os.Getenv("NATS_SERVER") != ""
	if p.Spawn == 0 || given || x.config.Discovery == drt.Static {
		return nil
	}
	if x.servers, err = stack.Start(ctx, stack.Options{}); err != nil {
		return err
	}
	x.config.Etcd.Endpoints, x.config.NATS.URL = []string{x.servers.EtcdURL()}, x.servers.NATSURL()
	return nil
}

// routingOptions say who is asked, and how workers are chosen.
func (x *processRun) routingOptions() (remotes.Options, error) {
	p := &x.o.Processes
	o := remotes.Options{Routing: routes.Options{
		Policy: x.spec.Router, Router: router.DefaultConfig(), Seed: x.spec.Seed, Migrations: p.Migrations,
		Warn: func(text string) { fmt.Fprintf(x.s.Err, "replay: warning: %s\n", text) },
	}}
	if x.spec.RouterConfig != nil {
		o.Routing.Router = *x.spec.RouterConfig
	}
	workers, prefill := p.Endpoint, p.Prefill
	if p.Spawn > 0 {
		// Whatever else is there, these are alone in their namespace.
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
		return drt.Name{}, cli.Usagef("--%s=%s: want namespace.component.endpoint", flag, text)
	}
	return drt.Name{Namespace: parts[0], Component: parts[1], Endpoint: parts[2]}, nil
}

// stopCluster takes down what was started.
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
