package zmtp

import (
	"fmt"
	"net"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/live/tcp"
)

// Limits of a socket that listens.
const (
	maxPeers     = 1024
	maxFromPeers = 64 << 10 // bytes of a frame: peers send topics and requests only
)

// parseEndpoint returns the TCP address of an endpoint, tcp://host:port; the host may be *.
func parseEndpoint(endpoint string) (string, error) {
	rest, ok := strings.CutPrefix(endpoint, "tcp://")
	if !ok {
		return "", excerpt.Errorf("endpoint %q: want tcp://host:port", endpoint)
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil || port == "" || port == "*" {
		return "", excerpt.Errorf("endpoint %q: want tcp://host:port", endpoint)
	}
	if host == "*" {
		host = ""
	}
	return net.JoinHostPort(host, port), nil
}

// listenAt listens at an endpoint and calls handle for each peer, after its handshake.
// The peer is gone when handle returns.
func listenAt(endpoint string, t Type, handle func(*conn)) (*tcp.Server, error) {
	at, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	s, err := tcp.Listen(at, maxPeers)
	if err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", endpoint, err)
	}
	s.Serve(func(n net.Conn) {
		c, err := shakeHands(n, t, maxFromPeers)
		if err != nil {
			return // it does not speak our language
		}
		defer c.closeConn()
		handle(c)
	})
	return s, nil
}

// endpointOf returns the endpoint that a socket listens at.
func endpointOf(s *tcp.Server) string { return "tcp://" + s.Addr().String() }
