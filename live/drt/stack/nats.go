package stack

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startLimit is how long a server may take to be ready; it recovers its streams
// meanwhile.
const startLimit = time.Minute

// NATS is a running NATS server with JetStream.
type NATS struct {
	server *server.Server
	remove string // the directory to be removed, or ""
}

// startNATS starts a server and waits until it is ready.
func startNATS(ctx context.Context, o NATSOptions) (*NATS, error) {
	n := new(NATS)
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "replay-nats-")
		if err != nil {
			return nil, err
		}
		o.Dir, n.remove = dir, dir
	}
	if err := n.startServer(ctx, o); err != nil {
		return nil, errors.Join(err, os.RemoveAll(n.remove))
	}
	return n, nil
}

func (n *NATS) startServer(ctx context.Context, o NATSOptions) error {
	o.Host, o.Port = cmp.Or(o.Host, "127.0.0.1"), cmp.Or(o.Port, server.RANDOM_PORT)
	o.MaxPayload = cmp.Or(o.MaxPayload, defaultMaxPayload)
	options := &server.Options{
		Host: o.Host, Port: o.Port, JetStream: true, StoreDir: o.Dir, SyncAlways: o.Sync,
		MaxPayload: int32(o.MaxPayload), MaxPending: max(64<<20, int64(o.MaxPayload)),
		NoLog: true, NoSigs: true, Username: o.Username, Password: o.Password,
	}
	if o.Cert != "" {
		secure, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: o.Cert, KeyFile: o.Key, CaFile: o.CA, Verify: o.CA != ""})
		if err != nil {
			return fmt.Errorf("nats server: %w", err)
		}
		secure.MinVersion = tls.VersionTLS12
		options.TLSConfig, options.TLSTimeout = secure, 5
	}
	s, err := server.NewServer(options)
	if err != nil {
		return fmt.Errorf("nats server: %w", err)
	}
	s.Start()
	limit := startLimit
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	n.server = s
	if !s.ReadyForConnections(limit) {
		n.Stop()
		return fmt.Errorf("nats server on %s: not ready after %v; is port %d taken?", o.Host, limit.Round(time.Millisecond), max(o.Port, 0))
	}
	return nil
}

// Port returns the port it listens on.
func (n *NATS) Port() int {
	a, ok := n.server.Addr().(*net.TCPAddr)
	if !ok {
		return 0
	}
	return a.Port
}

// Stop ends the server, waits until it has, and removes what is not to be kept.
func (n *NATS) Stop() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
	_ = os.RemoveAll(n.remove) // what is left in a directory for temporary files hurts nobody
}
