package stack

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startLimit is the time limit for a server to be ready, including the recovery of its data.
const startLimit = time.Minute

// startNATS starts a NATS server with JetStream, waits until it is ready, and returns its port. Streams are stored in
// dir. With sync, each write is flushed to disk.
func startNATS(ctx context.Context, o Options, dir string, sync bool) (*server.Server, int, error) {
	most := cmp.Or(o.MaxPayload, defaultMaxPayload)
	options := &server.Options{
		Host: o.Host, Port: cmp.Or(o.NATSPort, server.RANDOM_PORT), JetStream: true, StoreDir: dir, SyncAlways: sync,
		MaxPayload: int32(most), MaxPending: max(64<<20, int64(most)),
		NoLog: true, NoSigs: true, Username: o.Username, Password: o.Password,
	}
	if o.Cert != "" {
		secure, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: o.Cert, KeyFile: o.Key, CaFile: o.CA, Verify: o.CA != ""})
		if err != nil {
			return nil, 0, fmt.Errorf("nats server: %w", err)
		}
		secure.MinVersion = tls.VersionTLS12
		options.TLSConfig, options.TLSTimeout = secure, 5
	}
	s, err := server.NewServer(options)
	if err != nil {
		return nil, 0, fmt.Errorf("nats server: %w", err)
	}
	s.Start()
	limit := startLimit
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	if !s.ReadyForConnections(limit) {
		stopNATS(s)
		return nil, 0, fmt.Errorf("nats server on %s: not ready after %v; is port %d taken?", o.Host, limit.Round(time.Millisecond), o.NATSPort)
	}
	at, ok := s.Addr().(*net.TCPAddr)
	if !ok {
		stopNATS(s)
		return nil, 0, fmt.Errorf("nats server on %s: no port", o.Host)
	}
	return s, at.Port, nil
}

// stopNATS stops the server and waits until it has ended.
func stopNATS(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}
