// Package broker is a NATS server with JetStream inside this process, for sweeps
// that need no other. It is that of drt/stack, with a directory of its own.
package broker

import (
	"context"
	"errors"
	"os"

	"github.com/replay-llm/replay/live/drt/stack"
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
	server *stack.NATS
	remove string // the directory to be removed, or ""
}

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
	var err error
	if b.server, err = stack.StartNATS(context.Background(), stack.NATSOptions{Host: o.Host, Port: o.Port, Dir: o.Dir}); err != nil {
		return nil, errors.Join(err, b.clean())
	}
	return b, nil
}

// URL is where clients reach the server.
func (b *Broker) URL() string { return b.server.URL() }

// Stop ends the server and waits until it has.
func (b *Broker) Stop() {
	b.server.Stop()
	// What is left in a directory for temporary files hurts nobody.
	_ = b.clean()
}

func (b *Broker) clean() error {
	if b.remove == "" {
		return nil
	}
	return os.RemoveAll(b.remove)
}
