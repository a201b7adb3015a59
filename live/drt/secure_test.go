package drt_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
	"github.com/replay-llm/replay/live/fault"
)

// authority signs certificates in a directory.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.issue(t, name, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue writes name.crt and name.key.
func (a *authority) issue(t *testing.T, name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := c, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der},
		name + ".key": {Type: "EC PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// Servers that want certificates and passwords get them, and nobody comes in
// without.
func TestCredentials(t *testing.T) {
	ca := newAuthority(t, "ca")
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	ca.issue(t, "server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: both})
	ca.issue(t, "client", &x509.Certificate{ExtKeyUsage: both})
	other := newAuthority(t, "other")
	other.issue(t, "client", &x509.Certificate{ExtKeyUsage: both})

	_, config := servers(t, stack.Options{
		Cert: ca.file("server.crt"), Key: ca.file("server.key"), CA: ca.file("ca.crt"), Username: "me", Password: "secret",
	})
	good := func() drt.Config {
		c := config
		c.Connect = timeLimit
		c.Etcd.CA, c.Etcd.Cert, c.Etcd.Key = ca.file("ca.crt"), ca.file("client.crt"), ca.file("client.key")
		c.NATS.CA, c.NATS.Cert, c.NATS.Key = ca.file("ca.crt"), ca.file("client.crt"), ca.file("client.key")
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
		here  bool // it is noticed before a server is asked
	}{
		"no certificate at etcd":          {spoil: func(c *drt.Config) { c.Etcd.Cert, c.Etcd.Key = "", "" }},
		"a stranger's at etcd":            {spoil: func(c *drt.Config) { c.Etcd.Cert, c.Etcd.Key = other.file("client.crt"), other.file("client.key") }},
		"another authority of etcd":       {spoil: func(c *drt.Config) { c.Etcd.CA = other.file("other.crt") }},
		"no certificate at NATS":          {spoil: func(c *drt.Config) { c.NATS.Cert, c.NATS.Key = "", "" }},
		"another authority of NATS":       {spoil: func(c *drt.Config) { c.NATS.CA = other.file("other.crt") }},
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

// An etcd that wants a password gets it.
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
	config.Etcd.Password = "wrong" // which is told at once
	if _, err := drt.Connect(ctx, config); !errors.Is(err, fault.CannotConnect) || !strings.Contains(err.Error(), "authentication failed") {
		t.Errorf("with a wrong password: %v, want CannotConnect", err)
	}
}
