package cluster

import (
	"os"
	"strings"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/options"
	"github.com/replay-llm/replay/live/drt"
)

// Config is what flags and environment say.
func Config(f *options.RuntimeFlags) (drt.Config, error) {
	c, err := drt.FromEnv(os.Getenv)
	if err != nil {
		return c, cli.Usagef("%v", err)
	}
	set(&c.NATS.URL, f.Nats)
	set(&c.Etcd.Username, f.EtcdUser)
	set(&c.Etcd.CA, f.EtcdCA)
	set(&c.Etcd.Cert, f.EtcdCert)
	set(&c.Etcd.Key, f.EtcdKey)
	set(&c.NATS.Username, f.NatsUser)
	set(&c.NATS.NKey, f.NatsNKey)
	set(&c.NATS.Credentials, f.NatsCreds)
	set(&c.NATS.CA, f.NatsCA)
	set(&c.NATS.Cert, f.NatsCert)
	set(&c.NATS.Key, f.NatsKey)
	set(&c.ResponseHost, f.ResponseHost)
	set(&c.Discovery, drt.Discovery(f.Discovery))
	set(&c.Plane, drt.RequestPlane(f.Plane))
	set(&c.Layout, drt.Layout(f.Layout))
	if f.Etcd != "" {
		c.Etcd.Endpoints = strings.Split(f.Etcd, ",")
	}
	if f.ResponsePort != 0 {
		c.ResponsePort = f.ResponsePort
	}
	if f.Lease <= 0 || f.Connect <= 0 || f.CallHome <= 0 || f.SlowClient <= 0 {
		return c, cli.Usagef("--lease=%v --connect-timeout=%v --call-home-timeout=%v --slow-client-timeout=%v: want them above 0", f.Lease, f.Connect, f.CallHome, f.SlowClient)
	}
	c.Lease, c.Connect, c.CallHome, c.SlowClient = f.Lease, f.Connect, f.CallHome, f.SlowClient
	if c.Static, err = staticInstances(f, c.Discovery); err != nil {
		return c, err
	}
	if err := c.Check(); err != nil {
		return c, cli.Usagef("%v", err)
	}
	return c, nil
}

// staticInstances are the addresses that are given.
func staticInstances(f *options.RuntimeFlags, d drt.Discovery) (map[string][]drt.StaticInstance, error) {
	if f.Static == "" {
		return nil, nil
	}
	if d != drt.Static {
		return nil, cli.Usagef("--static: only with --discovery static")
	}
	all, err := drt.ParseStatic(f.Static)
	if err != nil {
		return nil, cli.Usagef("--static: %v", err)
	}
	return all, nil
}

// set sets a field to what a flag says, if it says something.
func set[T ~string](field *T, value T) {
	if value != "" {
		*field = value
	}
}
