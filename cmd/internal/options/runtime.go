package options

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
)

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
