package drt_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/certtest"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
	"github.com/replay-llm/replay/live/fault"
)

// Servers that require certificates and passwords accept connections with them and reject connections without them.
func TestCredentials(t *testing.T) {
	ca, other := certtest.NewAuthority(t), certtest.NewAuthority(t)
	serverCert, serverKey := ca.Issue(t, "server", net.IPv4(127, 0, 0, 1))
	cert, key := ca.Issue(t, "client")
	strangeCert, strangeKey := other.Issue(t, "client")

	_, config := servers(t, stack.Options{
		Cert: serverCert, Key: serverKey, CA: ca.File, Username: "me", Password: "secret",
	})
	good := func() drt.Config {
		c := config
		c.Connect, c.Lease = timeLimit, timeLimit // a busy machine renews a lease late
		c.Etcd.CA, c.Etcd.Cert, c.Etcd.Key = ca.File, cert, key
		c.NATS.CA, c.NATS.Cert, c.NATS.Key = ca.File, cert, key
		c.NATS.Username, c.NATS.Password = "me", "secret"
		c.Etcd.Username, c.Etcd.Password = "me", "secret"
		return c
	}
	serve(t, join(t, good()), "generate", counter, drt.ServeOptions{})
	if got, err := call(t, client(t, join(t, good()), "generate", 1), `{"n":1}`, drt.RoundRobin()); err != nil || got != `0 "done"` {
		t.Errorf("with credentials: %q, %v", got, err)
	}
	for name, test := range map[string]struct {
		spoil func(*drt.Config)
		here  bool // the error occurs before a server is contacted
	}{
		"no certificate at etcd":          {spoil: func(c *drt.Config) { c.Etcd.Cert, c.Etcd.Key = "", "" }},
		"a stranger's at etcd":            {spoil: func(c *drt.Config) { c.Etcd.Cert, c.Etcd.Key = strangeCert, strangeKey }},
		"another authority of etcd":       {spoil: func(c *drt.Config) { c.Etcd.CA = other.File }},
		"no certificate at NATS":          {spoil: func(c *drt.Config) { c.NATS.Cert, c.NATS.Key = "", "" }},
		"another authority of NATS":       {spoil: func(c *drt.Config) { c.NATS.CA = other.File }},
		"wrong password at etcd":          {spoil: func(c *drt.Config) { c.Etcd.Password = "secreT" }},
		"no password at etcd":             {spoil: func(c *drt.Config) { c.Etcd.Username, c.Etcd.Password = "", "" }},
		"wrong password at NATS":          {spoil: func(c *drt.Config) { c.NATS.Password = "secreT" }},
		"no password at NATS":             {spoil: func(c *drt.Config) { c.NATS.Username = "" }},
		"a certificate that is not there": {spoil: func(c *drt.Config) { c.Etcd.Cert = "none" }, here: true},
		"a key without its certificate":   {spoil: func(c *drt.Config) { c.NATS.Cert = "" }, here: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := good()
			c.Connect = 300 * time.Millisecond
			test.spoil(&c)
			rt, err := drt.Connect(limited(t), c)
			if err == nil {
				_ = rt.Close(limited(t))
				t.Fatal("connected, want an error")
			}
			if asked := errors.Is(err, fault.CannotConnect); asked == test.here {
				t.Errorf("%v: want CannotConnect for what the server refuses alone", err)
			}
		})
	}
}

// The runtime sends its password to an etcd that requires it.
func TestPasswordAtEtcd(t *testing.T) {
	s, config := servers(t, stack.Options{})
	c, ctx := etcd(t, s), limited(t)
	for _, user := range []string{"root", "me"} {
		if _, err := c.UserAdd(ctx, user, "secret"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.UserGrantRole(ctx, user, "root"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.AuthEnable(ctx); err != nil {
		t.Fatal(err)
	}
	config.Etcd.Username, config.Etcd.Password = "me", "secret"
	rt := join(t, config)
	serve(t, rt, "generate", counter, drt.ServeOptions{})
	client(t, join(t, config), "generate", 1)
	config.Etcd.Password = "wrong" // a wrong password is an error at once
	if _, err := drt.Connect(ctx, config); !errors.Is(err, fault.CannotConnect) || !strings.Contains(err.Error(), "authentication failed") {
		t.Errorf("with a wrong password: %v, want CannotConnect", err)
	}
}
