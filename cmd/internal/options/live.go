package options

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
)

// live holds the flags of a replay in real time.
type live struct {
	Barrier  bool
	Disagg   bool
	Precise  cli.Choice
	Deadline time.Duration
}

func (l *live) bindFlags(fs *pflag.FlagSet) {
	l.Precise = cli.Choice{Names: []string{"timer", "spin"}, Value: "timer"}
	fs.BoolVar(&l.Barrier, "online-barrier", true, "let a worker wait, up to 2 ms, until the request that a completion lets in is there")
	fs.BoolVar(&l.Disagg, "online-disagg", false, "take prefill and decode workers of their own in real time too")
	fs.Var(&l.Precise, "precise", "how workers wait, by `name`: timer, or spin, which looks at the clock in the end\nand takes a processor per worker")
	fs.DurationVar(&l.Deadline, "deadline", 0, "end the run after so much real `time`, as 90s, and report what there is; exit code 3")
}

// RealEnd returns when a replay in real time ends early, 0 for never, and whether
// --until asks for that, so that it is no error.
func (o *Options) RealEnd() (after time.Duration, wanted bool) {
	until := time.Duration(float64(o.Limits.Until.At) * float64(time.Millisecond))
	if until > 0 && (o.Live.Deadline == 0 || until <= o.Live.Deadline) {
		return until, true
	}
	return o.Live.Deadline, false
}

// ModeFlags are those that only some mode knows but that of the logical clock.
func (o *Options) ModeFlags() []string {
	return append(liveFlags(), append(processFlags(), o.Processes.RuntimeNames...)...)
}

// liveFlags are those that only a replay in real time knows.
func liveFlags() []string {
	return []string{"online-barrier", "online-disagg", "precise", "deadline"}
}

// IsLive reports whether the replay is in real time.
func (o *Options) IsLive() bool { return o.Cluster.mode.Value == "online" }

// checkLive refuses flags of no effect in the chosen mode.
func (o *Options) checkLive() error {
	if err := o.checkProcesses(); err != nil || o.IsCluster() {
		return err
	}
	if !o.IsLive() {
		if name := o.FirstChanged(liveFlags()...); name != "" {
			return o.Only(name, "with --mode online")
		}
		return nil
	}
	for _, name := range []string{"scale", "until", "out", "digest"} {
		if o.Changed(name) {
			return o.Only(name, "with --mode offline")
		}
	}
	switch {
	case o.Limits.oversize.Value == "reject":
		return o.Refuse("oversize", "error with --mode online")
	case o.Changed("deadline") && o.Live.Deadline <= 0:
		return o.Refuse("deadline", "a time above 0")
	case o.Live.Disagg && !o.TwoPools():
		return o.Only("online-disagg", "where prefill and decode have workers of their own")
	case !o.Live.Disagg && o.TwoPools():
		return o.Only(o.twoPoolFlag(), "with --mode offline, or with --online-disagg")
	}
	return nil
}

// twoPoolFlag is a flag that gave prefill and decode workers of their own.
func (o *Options) twoPoolFlag() string {
	if name := o.FirstChanged("prefill-engine-args", "decode-engine-args", "prefill-workers", "decode-workers"); name != "" {
		return name
	}
	for _, own := range o.Engine.Own {
		for _, s := range GivenOf(own) {
			return s.Name
		}
	}
	return "mode"
}

// processes holds the flags of a replay on workers that are processes.
type processes struct {
	Spawn             int
	Endpoint, Prefill string
	Migrations        int
	Startup           time.Duration
	Runtime           RuntimeFlags
	RuntimeNames      []string // of the flags that say how to take part in a cluster
}

func (p *processes) bindFlags(fs *pflag.FlagSet) {
	fs.IntVar(&p.Spawn, "spawn", 0, "start this `number` of workers, etcd and NATS (unless --etcd and --nats tell where they are), and stop them at the end; 0: workers are there")
	fs.StringVar(&p.Endpoint, "endpoint", "dynamo.backend.generate", "`name` of the workers' endpoint: namespace.component.endpoint")
	fs.StringVar(&p.Prefill, "prefill-endpoint", "", "`name` of the prefill workers' endpoint; the others decode then")
	fs.IntVar(&p.Migrations, "migration-limit", 0, "`number` of times a request may go on at another worker when its own fails")
	fs.DurationVar(&p.Startup, "startup-timeout", time.Minute, "`time` for workers to be there")
	p.RuntimeNames = cli.BindNamed(fs, p.Runtime.Bind)
	cli.Hide(fs, p.RuntimeNames...)
	fs.Lookup("etcd").Hidden, fs.Lookup("nats").Hidden = false, false
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
		own := append(processFlags(), p.RuntimeNames...)
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

// RuntimeFlags say how a command takes part in a cluster. What no flag says the
// environment does.
type RuntimeFlags struct {
	Etcd, Nats                           string
	Discovery, Static, Plane, Layout     string
	EtcdUser, EtcdCA, EtcdCert, EtcdKey  string
	NatsUser, NatsNKey, NatsCreds        string
	NatsCA, NatsCert, NatsKey            string
	ResponseHost                         string
	ResponsePort                         int
	Lease, Connect, CallHome, SlowClient time.Duration
}

func (f *RuntimeFlags) Bind(fs *pflag.FlagSet) {
	for _, one := range []struct {
		to          *string
		name, usage string
		otherwise   string
	}{
		{&f.Etcd, "etcd", "`URLs` of etcd, separated by commas", "$ETCD_ENDPOINTS, or http://127.0.0.1:2379"},
		{&f.Nats, "nats", "`URLs` of NATS, separated by commas", "$NATS_SERVER, or nats://127.0.0.1:4222"},
		{&f.Discovery, "discovery", "how workers are found, a `way`: etcd, static", "$DYN_DISCOVERY_BACKEND, or etcd"},
		{&f.Static, "static", "with --discovery static, `addresses` as ns.component.endpoint=subject@id, separated by commas", ""},
		{&f.Plane, "request-plane", "how requests reach workers, a `way`: nats, tcp", "$DYN_REQUEST_PLANE, or nats"},
		{&f.Layout, "wire", "`layout` of keys and subjects that are written: seed, v1, both", "both"},
		{&f.EtcdUser, "etcd-username", "`name` at etcd; its password is $ETCD_AUTH_PASSWORD", "$ETCD_AUTH_USERNAME"},
		{&f.EtcdCA, "etcd-ca", "`FILE` of the authority that signs etcd's certificate (PEM)", "$ETCD_AUTH_CA"},
		{&f.EtcdCert, "etcd-cert", "`FILE` of our certificate at etcd (PEM)", "$ETCD_AUTH_CLIENT_CERT"},
		{&f.EtcdKey, "etcd-key", "`FILE` of its key (PEM)", "$ETCD_AUTH_CLIENT_KEY"},
		{&f.NatsUser, "nats-username", "`name` at NATS; its password is $NATS_AUTH_PASSWORD, a token $NATS_AUTH_TOKEN", "$NATS_AUTH_USERNAME"},
		{&f.NatsNKey, "nats-nkey", "`FILE` of our seed at NATS", "$NATS_AUTH_NKEY"},
		{&f.NatsCreds, "nats-credentials", "`FILE` of our JWT and seed at NATS", "$NATS_AUTH_CREDENTIALS_FILE"},
		{&f.NatsCA, "nats-ca", "`FILE` of the authority that signs NATS's certificate (PEM)", "$NATS_AUTH_CA"},
		{&f.NatsCert, "nats-cert", "`FILE` of our certificate at NATS (PEM)", "$NATS_AUTH_CLIENT_CERT"},
		{&f.NatsKey, "nats-key", "`FILE` of its key (PEM)", "$NATS_AUTH_CLIENT_KEY"},
		{&f.ResponseHost, "response-host", "`address` at which workers reach this process", "$DYN_TCP_RESPONSE_STREAM_HOST, or the first that is routable"},
	} {
		fs.StringVar(one.to, one.name, "", one.usage)
		fs.Lookup(one.name).DefValue = one.otherwise
	}
	fs.IntVar(&f.ResponsePort, "response-port", 0, "`port` at which workers reach this process")
	fs.Lookup("response-port").DefValue = "$DYN_TCP_RESPONSE_STREAM_PORT, or any"
	fs.DurationVar(&f.Lease, "lease", 10*time.Second, "`time` after which a silent worker is taken for dead")
	fs.DurationVar(&f.Connect, "connect-timeout", 10*time.Second, "`time` to reach etcd and NATS")
	fs.DurationVar(&f.CallHome, "call-home-timeout", 10*time.Second, "`time` a worker may take to call home")
	fs.DurationVar(&f.SlowClient, "slow-client-timeout", 30*time.Second, "`time` a caller may not read before its request is killed")
}

// OnlyCalls refuses the flags that say how requests are served.
func OnlyCalls(fs *pflag.FlagSet) error {
	for _, name := range []string{"request-plane", "wire", "slow-client-timeout"} {
		if fs.Changed(name) {
			return cli.Usagef("--%s: only for workers", name)
		}
	}
	return nil
}
