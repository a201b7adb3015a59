package main

import (
	"time"

	"github.com/spf13/pflag"
)

// runtimeFlags say how a command takes part in a cluster. What no flag says the
// environment does.
type runtimeFlags struct {
	etcd, nats                           string
	discovery, static, plane, layout     string
	etcdUser, etcdCA, etcdCert, etcdKey  string
	natsUser, natsNKey, natsCreds        string
	natsCA, natsCert, natsKey            string
	responseHost                         string
	responsePort                         int
	lease, connect, callHome, slowClient time.Duration
}

func (f *runtimeFlags) bind(fs *pflag.FlagSet) {
	for _, one := range []struct {
		to          *string
		name, usage string
		otherwise   string
	}{
		{&f.etcd, "etcd", "`URLs` of etcd, separated by commas", "$ETCD_ENDPOINTS, or http://127.0.0.1:2379"},
		{&f.nats, "nats", "`URLs` of NATS, separated by commas", "$NATS_SERVER, or nats://127.0.0.1:4222"},
		{&f.discovery, "discovery", "how workers are found, a `way`: etcd, static", "$DYN_DISCOVERY_BACKEND, or etcd"},
		{&f.static, "static", "with --discovery static, `addresses` as ns.component.endpoint=subject@id, separated by commas", ""},
		{&f.plane, "request-plane", "how requests reach workers, a `way`: nats, tcp", "$DYN_REQUEST_PLANE, or nats"},
		{&f.layout, "wire", "`layout` of keys and subjects that are written: seed, v1, both", "both"},
		{&f.etcdUser, "etcd-username", "`name` at etcd; its password is $ETCD_AUTH_PASSWORD", "$ETCD_AUTH_USERNAME"},
		{&f.etcdCA, "etcd-ca", "`FILE` of the authority that signs etcd's certificate (PEM)", "$ETCD_AUTH_CA"},
		{&f.etcdCert, "etcd-cert", "`FILE` of our certificate at etcd (PEM)", "$ETCD_AUTH_CLIENT_CERT"},
		{&f.etcdKey, "etcd-key", "`FILE` of its key (PEM)", "$ETCD_AUTH_CLIENT_KEY"},
		{&f.natsUser, "nats-username", "`name` at NATS; its password is $NATS_AUTH_PASSWORD, a token $NATS_AUTH_TOKEN", "$NATS_AUTH_USERNAME"},
		{&f.natsNKey, "nats-nkey", "`FILE` of our seed at NATS", "$NATS_AUTH_NKEY"},
		{&f.natsCreds, "nats-credentials", "`FILE` of our JWT and seed at NATS", "$NATS_AUTH_CREDENTIALS_FILE"},
		{&f.natsCA, "nats-ca", "`FILE` of the authority that signs NATS's certificate (PEM)", "$NATS_AUTH_CA"},
		{&f.natsCert, "nats-cert", "`FILE` of our certificate at NATS (PEM)", "$NATS_AUTH_CLIENT_CERT"},
		{&f.natsKey, "nats-key", "`FILE` of its key (PEM)", "$NATS_AUTH_CLIENT_KEY"},
		{&f.responseHost, "response-host", "`address` at which workers reach this process", "$DYN_TCP_RESPONSE_STREAM_HOST, or the first that is routable"},
	} {
		fs.StringVar(one.to, one.name, "", one.usage)
		fs.Lookup(one.name).DefValue = one.otherwise
	}
	fs.IntVar(&f.responsePort, "response-port", 0, "`port` at which workers reach this process")
	fs.Lookup("response-port").DefValue = "$DYN_TCP_RESPONSE_STREAM_PORT, or any"
	fs.DurationVar(&f.lease, "lease", 10*time.Second, "`time` after which a silent worker is taken for dead")
	fs.DurationVar(&f.connect, "connect-timeout", 10*time.Second, "`time` to reach etcd and NATS")
	fs.DurationVar(&f.callHome, "call-home-timeout", 10*time.Second, "`time` a worker may take to call home")
	fs.DurationVar(&f.slowClient, "slow-client-timeout", 30*time.Second, "`time` a caller may not read before its request is killed")
}

// onlyCalls refuses the flags that say how requests are served.
func onlyCalls(fs *pflag.FlagSet) error {
	for _, name := range []string{"request-plane", "wire", "slow-client-timeout"} {
		if fs.Changed(name) {
			return usagef("--%s: only for workers", name)
		}
	}
	return nil
}
