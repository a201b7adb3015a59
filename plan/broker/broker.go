// Package broker is a NATS server with JetStream inside this process, for sweeps
// that need no other.
package broker

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Options say where a server listens and what it keeps.
type Options struct {
	Host string // "" : 127.0.0.1
	Port int    // 0: any that is free
	// Dir is where streams are kept, so that a later server goes on with them;
	// "": a directory that is removed at the end.
	Dir string
}

// Broker is a running server.
type Broker struct {
	server *server.Server
	remove string // the directory to be removed, or ""
}

// maxPayload is the largest message, in bytes.
const maxPayload = 16 << 20

// startLimit is how long a server may take to be ready; it recovers its streams
// meanwhile.
const startLimit = time.Minute

// Start starts a server.
func Start(o Options) (*Broker, error) {
	b := &Broker{}
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "replay-sweep-")
		if err != nil {
			return nil, err
		}
		o.Dir, b.remove = dir, dir
	}
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&server.Options{
		Host: o.Host, Port: o.Port, JetStream: true, StoreDir: o.Dir, MaxPayload: maxPayload,
		NoLog: true, NoSigs: true, DontListen: false,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("nats server: %w", err), b.clean())
	}
	b.server = s
	s.Start()
	if !s.ReadyForConnections(startLimit) {
		b.Stop()
		return nil, fmt.Errorf("nats server on %s: not ready after %v; is port %d taken?", o.Host, startLimit, o.Port)
	}
	return b, nil
}

// URL is where clients reach the server.
func (b *Broker) URL() string { return b.server.ClientURL() }

// Stop ends the server and waits until it has.
func (b *Broker) Stop() {
	b.server.Shutdown()
	b.server.WaitForShutdown()
	// What is left in a directory for temporary files hurts nobody.
	_ = b.clean()
}

func (b *Broker) clean() error {
	if b.remove == "" {
		return nil
	}
	return os.RemoveAll(b.remove)
}
