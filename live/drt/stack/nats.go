package stack

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startLimit is how long a server may take to be ready; it recovers its streams
// meanwhile.
const startLimit = time.Minute

// NATS is a running NATS server with JetStream.
type NATS struct{ server *server.Server }

// StartNATS starts a server and waits until it is ready.
func StartNATS(ctx context.Context, o NATSOptions) (*NATS, error) {
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = defaultMaxPayload
	}
	options := &server.Options{
		Host: o.Host, Port: o.Port, JetStream: true, StoreDir: o.Dir, SyncAlways: o.Sync,
		MaxPayload: int32(o.MaxPayload), MaxPending: max(64<<20, int64(o.MaxPayload)),
		NoLog: true, NoSigs: true, Username: o.Username, Password: o.Password,
	}
	if o.Cert != "" {
		secure, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: o.Cert, KeyFile: o.Key, CaFile: o.CA, Verify: o.CA != ""})
		if err != nil {
			return nil, fmt.Errorf("nats server: %w", err)
		}
		secure.MinVersion = tls.VersionTLS12
		options.TLSConfig, options.TLSTimeout = secure, 5
	}
	s, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("nats server: %w", err)
	}
	s.Start()
	limit := startLimit
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	n := &NATS{s}
	if !s.ReadyForConnections(limit) {
		n.Stop()
		return nil, fmt.Errorf("nats server on %s: not ready after %v; is port %d taken?", o.Host, limit.Round(time.Millisecond), max(o.Port, 0))
	}
	return n, nil
}

// URL is where clients reach the server.
func (n *NATS) URL() string { return n.server.ClientURL() }

// Port is the port it listens on.
func (n *NATS) Port() int {
	a, ok := n.server.Addr().(*net.TCPAddr)
	if !ok {
		return 0
	}
	return a.Port
}

// Stop ends the server and waits until it has.
func (n *NATS) Stop() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
}
