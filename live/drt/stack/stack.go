// Package stack runs real etcd and NATS servers inside this process, on real ports. The package is for single
// machines without an installation, and for tests.
//
// Only programs and tests import the package.
//
// Read stack.go (both servers), then etcd.go and nats.go.
package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/replay-llm/replay/internal/listen"
)

// Options are the addresses and directories of the servers.
type Options struct {
	// Dir is the data directory of the servers. Writes to it are flushed to disk, and later servers continue with its
	// data. "": a directory without flushing, which is removed at the end.
	Dir                string
	Host               string // "": 127.0.0.1
	EtcdPort, NATSPort int    // 0: any free port
	MaxPayload         int    // bytes of the largest NATS message; 0: 16 MiB

	// Cert and Key are PEM files; both servers then require TLS. If CA is set, too, they require client certificates
	// that CA has signed.
	Cert, Key, CA string
	// Insecure allows a host outside loopback without client credentials (CA or Username).
	Insecure bool
	// Username and Password, if set, are required by both servers. etcd also gets a user root with this password.
	Username, Password string
}

// defaultMaxPayload is the default size of the largest NATS message, in bytes.
const defaultMaxPayload = 16 << 20

// Stack is a running etcd and a running NATS.
type Stack struct {
	options Options
	remove  string // temporary directory to remove, or ""
	started bool   // both servers were started once

	mu   sync.Mutex
	etcd *etcdServer    // nil while killed
	nats *server.Server // nil while killed
}

// Start starts both servers and waits until they are ready or ctx ends.
func Start(ctx context.Context, o Options) (*Stack, error) {
	o.Host = cmp.Or(o.Host, "127.0.0.1")
	if (o.Cert == "") != (o.Key == "") || o.CA != "" && o.Cert == "" {
		return nil, errors.New("a certificate and its key require each other, and a CA requires both")
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	s := &Stack{options: o}
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "replay-stack-")
		if err != nil {
			return nil, err
		}
		s.options.Dir, s.remove = dir, dir
	}
	// Later starts use the ports of the first start.
	err := s.RestartEtcd(ctx)
	if err == nil {
		err = s.RestartNATS(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	s.started = true
	return s, nil
}

// Check returns an error if the servers may not listen at the host.
func (o *Options) Check() error {
	_, err := listen.Check("etcd and NATS", net.JoinHostPort(o.Host, "0"), o.missing())
	return err
}

func (o *Options) missing() string {
	if o.Insecure || o.CA != "" || o.Username != "" {
		return ""
	}
	return "--ca, --nats-username, or --insecure"
}

// EtcdURL returns the URL of etcd for clients.
func (s *Stack) EtcdURL() string { return s.serverURL("http", "https", s.options.EtcdPort) }

// NATSURL returns the URL of NATS for clients.
func (s *Stack) NATSURL() string { return s.serverURL("nats", "tls", s.options.NATSPort) }

func (s *Stack) serverURL(plain, secure string, port int) string {
	if s.options.Cert != "" {
		plain = secure
	}
	if ip := net.ParseIP(s.options.Host); ip != nil {
		return plain + "://" + listen.Dialable(&net.TCPAddr{IP: ip, Port: port})
	}
	return fmt.Sprintf("%s://%s:%d", plain, s.options.Host, port)
}

// KillEtcd stops etcd without notice to its clients.
func (s *Stack) KillEtcd() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.etcd != nil {
		s.etcd.stopServer()
		s.etcd = nil
	}
}

// RestartEtcd starts etcd again with its data and port. RestartEtcd waits for the port until ctx ends, because
// clients that try to connect may occupy it.
func (s *Stack) RestartEtcd(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.etcd != nil {
		return errors.New("etcd is running")
	}
	s.awaitPort(ctx, s.options.EtcdPort)
	e, port, err := startEtcd(ctx, s.options, filepath.Join(s.options.Dir, "etcd"), s.remove == "")
	if err != nil {
		return err
	}
	s.etcd, s.options.EtcdPort = e, port
	return nil
}

// KillNATS stops NATS without notice to its clients.
func (s *Stack) KillNATS() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nats != nil {
		stopNATS(s.nats)
		s.nats = nil
	}
}

// awaitPort waits until the port of a stopped server is free or ctx ends.
func (s *Stack) awaitPort(ctx context.Context, port int) {
	for s.started && ctx.Err() == nil {
		l, err := listen.Open("etcd or NATS", net.JoinHostPort(s.options.Host, strconv.Itoa(port)), s.options.missing())
		if err == nil {
			l.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// RestartNATS starts NATS again with its data and port. RestartNATS waits for the port like RestartEtcd.
func (s *Stack) RestartNATS(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nats != nil {
		return errors.New("nats is running")
	}
	s.awaitPort(ctx, s.options.NATSPort)
	n, port, err := startNATS(ctx, s.options, filepath.Join(s.options.Dir, "nats"), s.remove == "")
	if err != nil {
		return err
	}
	s.nats, s.options.NATSPort = n, port
	return nil
}

// Broken returns a channel that is closed when etcd cannot continue, for example on a full disk, and a function that
// returns the reason.
func (s *Stack) Broken() (<-chan struct{}, func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.etcd == nil {
		return nil, func() error { return nil }
	}
	b := s.etcd.broken
	return b.happened, func() error { return fmt.Errorf("etcd server: %w", b.err) }
}

// Stop stops both servers and removes the temporary directory.
func (s *Stack) Stop() error {
	s.KillNATS()
	s.KillEtcd()
	return os.RemoveAll(s.remove)
}
