package options

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/schema"
)

// live has the flags of a replay in real time.
type live struct {
	Barrier  bool
	Disagg   bool
	Precise  cli.Choice
	Deadline time.Duration
}

func (l *live) bindFlags(fs *pflag.FlagSet) {
	l.Precise = cli.Choice{Names: []string{"timer", "spin"}, Value: "timer"}
	fs.BoolVar(&l.Barrier, "online-barrier", true, "let a worker wait up to 20 ms before its next pass for a request that a completion starts")
	fs.BoolVar(&l.Disagg, "online-disagg", false, "allow separate prefill and decode workers with --mode online")
	fs.Var(&l.Precise, "precise", "how workers wait, by `name`: timer, or spin (polls the clock at the end of a wait; takes one processor per worker)")
	fs.DurationVar(&l.Deadline, "deadline", 0, "end the run after this real `time`, as 90s, report the results so far, and exit with code 3")
}

// RealEnd returns the real time after which a replay ends early, or 0. wanted reports whether --until sets this time.
// In that case the early end is not an error.
func (o *Options) RealEnd() (after time.Duration, wanted bool) {
	until := time.Duration(float64(o.Limits.Until.At) * float64(time.Millisecond))
	if until > 0 && (o.Live.Deadline == 0 || until <= o.Live.Deadline) {
		return until, true
	}
	return o.Live.Deadline, false
}

// ModeFlags returns the flags that are not supported in simulated time.
func (o *Options) ModeFlags() []string {
	return append(liveFlags(), append(processFlags(), o.Processes.RuntimeNames...)...)
}

// liveFlags returns the flags that are only supported in real time.
func liveFlags() []string {
	return []string{"online-barrier", "online-disagg", "precise", "deadline"}
}

// IsLive reports whether the replay is in real time with workers in this process.
func (s *shared) IsLive() bool { return s.mode.Value == "online" }

// checkLive returns an error for flags without effect in the selected mode.
func (o *Options) checkLive() error {
	if o.IsCluster() {
		return o.checkProcesses()
	}
	online, two := o.IsLive(), o.TwoPools()
	return o.Check(
		cli.Needs(false, "with --mode cluster", append(processFlags(), o.Processes.RuntimeNames...)...),
		cli.Needs(online, "with --mode online", liveFlags()...),
		cli.Needs(!online, "with --mode offline", "scale", "autoscale", "faults", "until", "out", "digest", "kv-events-file", "warm-caches", "save-caches"),
		cli.Wants(!online || o.Limits.oversize.Value != "reject", "oversize", "error with --mode online"),
		cli.Wants(!o.Changed("deadline") || o.Live.Deadline > 0, "deadline", "a time above 0"),
		cli.Needs(!o.Live.Disagg || two, "with --prefill-workers and --decode-workers", "online-disagg"),
		cli.Needs(!online || o.Live.Disagg || !two, "with --mode offline, or with --online-disagg", o.twoPoolFlag()),
	)
}

// twoPoolFlag returns the first set flag that separates prefill and decode workers.
func (o *Options) twoPoolFlag() string {
	if name := o.FirstChanged("prefill-engine-args", "decode-engine-args", "prefill-workers", "decode-workers"); name != "" {
		return name
	}
	for _, own := range o.Engine.Own {
		for _, f := range schema.Given(own) {
			return f.Flag
		}
	}
	return "mode"
}

// processes has the flags of a replay with workers that are processes.
type processes struct {
	Spawn             int
	Endpoint, Prefill string
	Migrations        int
	Startup           time.Duration
	Runtime           RuntimeFlags
	RuntimeNames      []string // names of the flags for joining a cluster
}

func (p *processes) bindFlags(fs *pflag.FlagSet) {
	fs.IntVar(&p.Spawn, "spawn", 0, "`number` of workers to start, with etcd and NATS if --etcd and --nats are not set; 0: use existing workers")
	fs.StringVar(&p.Endpoint, "endpoint", "dynamo.backend.generate", "`name` of the workers' endpoint: namespace.component.endpoint")
	fs.StringVar(&p.Prefill, "prefill-endpoint", "", "`name` of the endpoint of the prefill workers; the workers of --endpoint then only decode")
	fs.IntVar(&p.Migrations, "migration-limit", 0, "maximum `number` of times that a request continues at another worker after its worker failed")
	fs.DurationVar(&p.Startup, "startup-timeout", time.Minute, "maximum `time` to wait for workers at the start")
	p.RuntimeNames = cli.BindNamed(fs, p.Runtime.Bind)
	cli.Hide(fs, p.RuntimeNames...)
	fs.Lookup("etcd").Hidden, fs.Lookup("nats").Hidden = false, false
}

// processFlags returns the flags that are only supported with workers that are processes.
func processFlags() []string {
	return []string{"spawn", "endpoint", "prefill-endpoint", "migration-limit", "startup-timeout"}
}

// IsCluster reports whether the replay uses workers that are processes.
func (s *shared) IsCluster() bool { return s.mode.Value == "cluster" }

// checkProcesses returns an error for flags without effect in cluster mode.
func (o *Options) checkProcesses() error {
	p, workers := &o.Processes, o.Cluster.PrefillWorkers+o.Cluster.DecodeWorkers
	err := o.Check(
		cli.Needs(false, "with --mode offline", "scale", "autoscale", "faults", "out", "digest", "compat", "kv-events-file", "warm-caches", "save-caches"),
		cli.Needs(false, "with --mode online", "requests", "metrics", "otlp", "timeline", "online-barrier", "online-disagg"),
		cli.Wants(p.Spawn >= 0, "spawn", "at least 0"),
		cli.Wants(p.Migrations >= 0, "migration-limit", "at least 0"),
		cli.Wants(p.Startup > 0, "startup-timeout", "a time above 0"),
		cli.Needs(false, "without --mode cluster; --spawn starts processes", "workers"),
		cli.Wants(o.Limits.oversize.Value != "reject", "oversize", "error with --mode cluster"),
		cli.Wants(!o.Changed("deadline") || o.Live.Deadline > 0, "deadline", "a time above 0"),
		cli.Needs(p.Spawn == 0, "without --spawn: its workers have separate endpoints", "endpoint", "prefill-endpoint"),
		cli.Wants(p.Spawn == 0 || !o.TwoPools() || p.Spawn == workers, "spawn",
			fmt.Sprintf("%d, that of --prefill-workers and --decode-workers together", workers)),
	)
	if err == nil && p.Spawn == 0 {
		return o.checkOthers()
	}
	return err
}

// checkOthers returns an error for flags that are not supported with existing workers.
func (o *Options) checkOthers() error {
	if err := OnlyCalls(o.Set); err != nil {
		return err
	}
	names := []string{"engine-args", "prefill-engine-args", "decode-engine-args", "prefill-workers", "decode-workers"}
	for _, all := range [][]*schema.Flag{o.Engine.Flags, o.Engine.Own[0], o.Engine.Own[1]} {
		for _, f := range all {
			names = append(names, f.Flag)
		}
	}
	return o.Check(cli.Needs(false, "with --spawn, where workers are not there yet", names...))
}

// RuntimeFlags has the flags for joining a cluster. Environment variables set defaults.
type RuntimeFlags struct {
	Etcd, Nats                           string
	Discovery, Static, Plane, Layout     string
	EtcdUser, EtcdCA, EtcdCert, EtcdKey  string
	NatsUser, NatsNKey, NatsCreds        string
	NatsCA, NatsCert, NatsKey            string
	ResponseHost                         string
	ResponsePort                         int
	LinkCert, LinkKey, LinkCA, LinkName  string
	AllowDial                            string
	Insecure                             bool
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
		{&f.Discovery, "discovery", "discovery backend, a `way` to find workers: etcd or static", "$DYN_DISCOVERY_BACKEND, or etcd"},
		{&f.Static, "static", "with --discovery static: comma-separated `addresses`, as ns.component.endpoint=subject@id", ""},
		{&f.Plane, "request-plane", "transport of requests to workers, a `way`: nats or tcp", "$DYN_REQUEST_PLANE, or nats"},
		{&f.Layout, "wire", "`layout` of the keys and subjects that this process writes: seed, v1 or both", "both"},
		{&f.EtcdUser, "etcd-username", "user `name` for etcd; the password is read from $ETCD_AUTH_PASSWORD", "$ETCD_AUTH_USERNAME"},
		{&f.EtcdCA, "etcd-ca", "`FILE` of the CA certificate for etcd (PEM)", "$ETCD_AUTH_CA"},
		{&f.EtcdCert, "etcd-cert", "`FILE` of the client certificate for etcd (PEM)", "$ETCD_AUTH_CLIENT_CERT"},
		{&f.EtcdKey, "etcd-key", "`FILE` of the client key for etcd (PEM)", "$ETCD_AUTH_CLIENT_KEY"},
		{&f.NatsUser, "nats-username", "user `name` for NATS; the password is read from $NATS_AUTH_PASSWORD, a token from $NATS_AUTH_TOKEN", "$NATS_AUTH_USERNAME"},
		{&f.NatsNKey, "nats-nkey", "`FILE` of the NKey seed for NATS", "$NATS_AUTH_NKEY"},
		{&f.NatsCreds, "nats-credentials", "`FILE` of the credentials for NATS (JWT and NKey seed)", "$NATS_AUTH_CREDENTIALS_FILE"},
		{&f.NatsCA, "nats-ca", "`FILE` of the CA certificate for NATS (PEM)", "$NATS_AUTH_CA"},
		{&f.NatsCert, "nats-cert", "`FILE` of the client certificate for NATS (PEM)", "$NATS_AUTH_CLIENT_CERT"},
		{&f.NatsKey, "nats-key", "`FILE` of the client key for NATS (PEM)", "$NATS_AUTH_CLIENT_KEY"},
		{&f.ResponseHost, "response-host", "`address` at which workers connect to this process", "$DYN_TCP_RESPONSE_STREAM_HOST, or 127.0.0.1"},
		{&f.LinkCert, "link-cert", "`FILE` of the TLS certificate for connections between workers and callers on different machines (PEM); a token is read from $REPLAY_LINK_TOKEN", "$REPLAY_LINK_CERT"},
		{&f.LinkKey, "link-key", "`FILE` of the key of --link-cert (PEM)", "$REPLAY_LINK_KEY"},
		{&f.LinkCA, "link-ca", "`FILE` of the CA certificate for --link-cert of other processes (PEM)", "$REPLAY_LINK_CA"},
		{&f.LinkName, "link-name", "server `name` that the certificates of other processes must have", "$REPLAY_LINK_NAME, or the host of the address"},
		{&f.AllowDial, "allow-dial", "addresses that this process may connect to: a comma-separated list of `networks`, addresses, hosts, loopback, private, local (this machine) or any", "$REPLAY_ALLOW_DIAL, or loopback,private,local"},
	} {
		fs.StringVar(one.to, one.name, "", one.usage)
		fs.Lookup(one.name).DefValue = one.otherwise
	}
	fs.BoolVar(&f.Insecure, "insecure", false, "allow listening outside loopback without certificates or a token: every client is accepted")
	fs.IntVar(&f.ResponsePort, "response-port", 0, "`port` at which workers connect to this process")
	fs.Lookup("response-port").DefValue = "$DYN_TCP_RESPONSE_STREAM_PORT, or any"
	fs.DurationVar(&f.Lease, "lease", 10*time.Second, "`time` after which a worker that does not renew its lease counts as dead")
	fs.DurationVar(&f.Connect, "connect-timeout", 10*time.Second, "maximum `time` to connect to etcd and NATS")
	fs.DurationVar(&f.CallHome, "call-home-timeout", 10*time.Second, "maximum `time` that a worker may take to connect back to its caller")
	fs.DurationVar(&f.SlowClient, "slow-client-timeout", 30*time.Second, "`time` after which a request is cancelled if its caller does not read the answer")
}

// OnlyCalls returns an error for flags that apply only to programs that serve requests.
func OnlyCalls(fs *pflag.FlagSet) error {
	for _, name := range []string{"request-plane", "wire", "slow-client-timeout"} {
		if fs.Changed(name) {
			return cli.Usagef("--%s is supported by workers only", name)
		}
	}
	return nil
}
