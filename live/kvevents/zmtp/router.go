package zmtp

import "github.com/replay-llm/replay/live/tcp"

// Router is a ROUTER socket: peers ask, and each is answered alone.
type Router struct {
	server   *tcp.Server
	bound    int
	requests chan Request
	quit     chan struct{}
}

// Request is a message of a peer.
type Request struct {
	Frames Message // as the peer sent them, without the identity of libzmq's sockets
	peer   *conn
	bound  int
}

// maxRequests bounds the requests that wait; peers that ask more are not read.
const maxRequests = 16

// ListenRouter opens the socket. A peer for which bound messages are queued is cut off when another is sent: an answer
// with a hole would look like a whole one.
func ListenRouter(at Listener, bound int) (*Router, error) {
	r := &Router{bound: bound, requests: make(chan Request, maxRequests), quit: make(chan struct{})}
	var err error
	r.server, err = at.open(TypeRouter, r.servePeer)
	return r, err
}

// Endpoint returns where the socket listens.
func (r *Router) Endpoint() string { return endpointOf(r.server) }

// Requests returns the messages of all peers.
func (r *Router) Requests() <-chan Request { return r.requests }

func (r *Router) servePeer(c *conn) {
	for {
		m, err := c.receiveMessage()
		if err != nil {
			return
		}
		select {
		case r.requests <- Request{m, c, r.bound}:
		case <-c.alive.Done():
			return
		case <-r.quit:
			return
		}
	}
}

// Reply queues a message for the peer, without waiting. It reports false if the
// peer is gone or had to be cut off.
func (q Request) Reply(m Message) bool {
	if q.peer.queueMessage(packMessage(m), q.bound) {
		return true
	}
	q.peer.closeConn()
	return false
}

// Close closes the socket at once; queued messages are lost.
func (r *Router) Close() {
	close(r.quit)
	r.server.Close()
}
