//go:build nostack

package stack

import (
	"context"
	"errors"
)

// Embedded tells whether this program has the servers in it.
const Embedded = false

// ErrLeftOut says that this program was built without the servers.
var ErrLeftOut = errors.New("this program was built without embedded servers (build tag nostack): name external ones")

type etcdServer struct{}

func (*etcdServer) stop() {}

func startEtcd(context.Context, Options, string, bool) (*etcdServer, int, error) {
	return nil, 0, ErrLeftOut
}

// NATS would be a running NATS server.
type NATS struct{}

// StartNATS says that there is none.
func StartNATS(context.Context, NATSOptions) (*NATS, error) { return nil, ErrLeftOut }

// URL is empty.
func (*NATS) URL() string { return "" }

// Port is 0.
func (*NATS) Port() int { return 0 }

// Stop does nothing.
func (*NATS) Stop() {}
