package zmtp

import "github.com/replay-llm/replay/live/tcp"

// Router is a ROUTER socket: it receives requests of peers and answers each peer separately.
type Router struct {
	server   *tcp.Server
	bound    int
	requests chan Request
	quit     chan struct{}
}

// Request is a message of a peer.
type Request struct {
	Frames Message // frames without the identity that libzmq's sockets add
	peer   *conn
	bound  int
}

// maxRequests is the maximum number of waiting requests. Further requests are not read from the connections.
const maxRequests = 16

// ListenRouter opens the socket. If an answer exceeds bound queued messages, the peer is disconnected, because it
// would not notice a missing message.
func ListenRouter(at Listener, bound int) (*Router, error) {
	r := &Router{bound: bound, requests: make(chan Request, maxRequests), quit: make(chan struct{})}
	var err error
	r.server, err = at.open(TypeRouter, r.servePeer)
	return r, err
}

// Endpoint returns the endpoint of the socket.
func (r *Router) Endpoint() string { return endpointOf(r.server) }

// Requests returns the channel of the requests of all peers.
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

// Reply queues a message for the peer without waiting. Reply reports false if the peer has left or was disconnected.
func (q Request) Reply(m Message) bool {
	if q.peer.queueMessage(packMessage(m), q.bound) {
		return true
	}
	q.peer.closeConn()
	return false
}

// Close closes the socket at once, and drops queued messages.
func (r *Router) Close() {
	close(r.quit)
	r.server.Close()
}
