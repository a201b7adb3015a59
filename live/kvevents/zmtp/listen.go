package zmtp

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// Limits of a socket that listens.
const (
	maxPeers     = 1024
	maxFromPeers = 64 << 10 // bytes of a frame: peers send topics and requests only
	acceptPause  = 10 * time.Millisecond
)

// listener takes in the peers of a socket that listens.
type listener struct {
	role Type
	net  net.Listener
	done sync.WaitGroup

	mu     sync.Mutex
	peers  map[net.Conn]struct{}
	closed bool
}

// address is the TCP address of an endpoint, tcp://host:port; the host may be *.
func address(endpoint string) (string, error) {
	rest, ok := strings.CutPrefix(endpoint, "tcp://")
	if !ok {
		return "", fmt.Errorf("endpoint %q: want tcp://host:port", endpoint)
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil || port == "" || port == "*" {
		return "", fmt.Errorf("endpoint %q: want tcp://host:port", endpoint)
	}
	if host == "*" {
		host = ""
	}
	return net.JoinHostPort(host, port), nil
}

// listen starts to accept peers; serve is run for each, after its handshake, and
// the peer is gone when it returns.
func listen(endpoint string, t Type, serve func(*conn)) (*listener, error) {
	at, err := address(endpoint)
	if err != nil {
		return nil, err
	}
	n, err := net.Listen("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", endpoint, err)
	}
	l := &listener{role: t, net: n, peers: make(map[net.Conn]struct{})}
	l.done.Add(1)
	go l.accept(serve)
	return l, nil
}

func (l *listener) accept(serve func(*conn)) {
	defer l.done.Done()
	for {
		n, err := l.net.Accept()
		if err != nil {
			if l.isClosed() {
				return
			}
			time.Sleep(acceptPause) // for want of descriptors
			continue
		}
		if !l.enter(n) {
			_ = n.Close()
			continue
		}
		go func() {
			defer l.done.Done()
			defer l.leave(n)
			c, err := handshake(n, l.role, maxFromPeers)
			if err != nil {
				return // it does not speak our language
			}
			defer c.close()
			serve(c)
		}()
	}
}

func (l *listener) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// enter makes room for a peer.
func (l *listener) enter(n net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.peers) >= maxPeers {
		return false
	}
	l.peers[n] = struct{}{}
	l.done.Add(1)
	return true
}

func (l *listener) leave(n net.Conn) {
	l.mu.Lock()
	delete(l.peers, n)
	l.mu.Unlock()
	_ = n.Close()
}

// endpoint is where the socket listens.
func (l *listener) endpoint() string { return "tcp://" + l.net.Addr().String() }

// close closes the socket and all connections at once, and waits until nothing
// of it runs.
func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	for n := range l.peers {
		_ = n.Close()
	}
	l.mu.Unlock()
	_ = l.net.Close()
	l.done.Wait()
}
