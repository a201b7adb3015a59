package zmtp

import (
	"net"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/listen"
	"github.com/replay-llm/replay/live/tcp"
)

// Limits of a listening socket.
const (
	maxPeers     = 1024
	maxFromPeers = 64 << 10 // bytes of a frame: peers send topics and requests only
)

// parseEndpoint returns the TCP address of an endpoint, tcp://host:port; the host may be *.
func parseEndpoint(endpoint string) (string, error) {
	rest, ok := strings.CutPrefix(endpoint, "tcp://")
	if !ok {
		return "", excerpt.Errorf("endpoint %q: expected tcp://host:port", endpoint)
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil || port == "" || port == "*" {
		return "", excerpt.Errorf("endpoint %q: expected tcp://host:port", endpoint)
	}
	if host == "*" {
		host = ""
	}
	return net.JoinHostPort(host, port), nil
}

// Listener is the address of a listening socket.
type Listener struct {
	Endpoint string // tcp://host:port, port 0 for any; the host may be *
	Insecure bool   // allows addresses outside loopback, although the protocol has no authentication
}

// Check returns an error if a socket may not listen there.
func (l Listener) Check() error {
	at, err := parseEndpoint(l.Endpoint)
	if err == nil {
		_, err = listen.Check("KV events", at, l.missing())
	}
	return err
}

func (l Listener) missing() string {
	if l.Insecure {
		return ""
	}
	return "--insecure"
}

// open listens, and calls handle for each peer after its handshake. The connection is closed when handle returns.
func (l Listener) open(t Type, handle func(*conn)) (*tcp.Server, error) {
	at, err := parseEndpoint(l.Endpoint)
	if err != nil {
		return nil, err
	}
	opened, err := listen.Open("KV events", at, l.missing())
	if err != nil {
		return nil, err
	}
	s := tcp.NewServer(opened, maxPeers)
	s.Serve(func(n net.Conn) {
		c, err := shakeHands(n, t, maxFromPeers)
		if err != nil {
			return // the peer does not speak this protocol
		}
		defer c.closeConn()
		handle(c)
	})
	return s, nil
}

// endpointOf returns the endpoint of a listening socket for peers.
func endpointOf(s *tcp.Server) string { return "tcp://" + listen.Dialable(s.Addr()) }
