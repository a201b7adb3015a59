//go:build !offline

package main

import (
	"os"
	"strings"

	"github.com/replay-llm/replay/live/drt"
)

// config is what flags and environment say.
func (f *runtimeFlags) config() (drt.Config, error) {
	c, err := drt.FromEnv(os.Getenv)
	if err != nil {
		return c, usagef("%v", err)
	}
	set(&c.NATS.URL, f.nats)
	set(&c.Etcd.Username, f.etcdUser)
	set(&c.Etcd.CA, f.etcdCA)
	set(&c.Etcd.Cert, f.etcdCert)
	set(&c.Etcd.Key, f.etcdKey)
	set(&c.NATS.Username, f.natsUser)
	set(&c.NATS.NKey, f.natsNKey)
	set(&c.NATS.Credentials, f.natsCreds)
	set(&c.NATS.CA, f.natsCA)
	set(&c.NATS.Cert, f.natsCert)
	set(&c.NATS.Key, f.natsKey)
	set(&c.ResponseHost, f.responseHost)
	set(&c.Discovery, drt.Discovery(f.discovery))
	set(&c.Plane, drt.RequestPlane(f.plane))
	set(&c.Layout, drt.Layout(f.layout))
	if f.etcd != "" {
		c.Etcd.Endpoints = strings.Split(f.etcd, ",")
	}
	if f.responsePort != 0 {
		c.ResponsePort = f.responsePort
	}
	if f.lease <= 0 || f.connect <= 0 || f.callHome <= 0 || f.slowClient <= 0 {
		return c, usagef("--lease=%v --connect-timeout=%v --call-home-timeout=%v --slow-client-timeout=%v: want them above 0", f.lease, f.connect, f.callHome, f.slowClient)
	}
	c.Lease, c.Connect, c.CallHome, c.SlowClient = f.lease, f.connect, f.callHome, f.slowClient
	if c.Static, err = f.instances(c.Discovery); err != nil {
		return c, err
	}
	if err := c.Check(); err != nil {
		return c, usagef("%v", err)
	}
	return c, nil
}

// instances are the addresses that are given.
func (f *runtimeFlags) instances(d drt.Discovery) (map[string][]drt.StaticInstance, error) {
	if f.static == "" {
		return nil, nil
	}
	if d != drt.Static {
		return nil, usagef("--static: only with --discovery static")
	}
	all, err := drt.ParseStatic(f.static)
	if err != nil {
		return nil, usagef("--static: %v", err)
	}
	return all, nil
}

// set sets a field to what a flag says, if it says something.
func set[T ~string](field *T, value T) {
	if value != "" {
		*field = value
	}
}
