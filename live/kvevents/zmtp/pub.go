package zmtp

import (
	"strings"
	"sync"

	"github.com/replay-llm/replay/live/tcp"
)

// Pub is a PUB socket: it sends every message to all peers that have subscribed to a prefix of its first frame.
type Pub struct {
	server *tcp.Server
	bound  int

	mu          sync.Mutex
	subscribers map[*conn]map[string]int // number of subscriptions by prefix
}

// ListenPub opens the socket. A peer with bound queued messages misses further messages.
func ListenPub(at Listener, bound int) (*Pub, error) {
	p := &Pub{bound: bound, subscribers: make(map[*conn]map[string]int)}
	var err error
	p.server, err = at.open(TypePub, p.servePeer)
	return p, err
}

// Endpoint returns the endpoint of the socket.
func (p *Pub) Endpoint() string { return endpointOf(p.server) }

func (p *Pub) servePeer(c *conn) {
	c.subscribe = func(topic string, on bool) { p.setSubscription(c, topic, on) }
	defer func() {
		p.mu.Lock()
		delete(p.subscribers, c)
		p.mu.Unlock()
	}()
	for {
		m, err := c.receiveMessage()
		if err != nil {
			return
		}
		// In ZMTP 3.0, subscriptions are messages.
		if len(m) == 1 && len(m[0]) > 0 && m[0][0] <= 1 {
			p.setSubscription(c, string(m[0][1:]), m[0][0] == 1)
		}
	}
}

// maxTopics is the maximum number of prefixes of one peer.
const maxTopics = 1024

func (p *Pub) setSubscription(c *conn, topic string, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	topics := p.subscribers[c]
	switch {
	case on && topics == nil:
		p.subscribers[c] = map[string]int{topic: 1}
	case on && (topics[topic] > 0 || len(topics) < maxTopics):
		topics[topic]++
	case !on && topics[topic] > 1:
		topics[topic]--
	case !on:
		if delete(topics, topic); len(topics) == 0 {
			delete(p.subscribers, c)
		}
	}
}

// Send queues a message for all subscribed peers without waiting. Send returns the number of peers that miss the
// message because their queue is full.
func (p *Pub) Send(m Message) (missed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var wire []byte
	for c, topics := range p.subscribers {
		if !isWanted(topics, m[0]) {
			continue
		}
		if wire == nil {
			wire = packMessage(m)
		}
		if !c.queueMessage(wire, p.bound) {
			missed++
		}
	}
	return missed
}

func isWanted(topics map[string]int, topic []byte) bool {
	for prefix := range topics {
		if strings.HasPrefix(string(topic), prefix) {
			return true
		}
	}
	return false
}

// Subscribers returns the number of peers with a subscription.
func (p *Pub) Subscribers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.subscribers)
}

// Close closes the socket at once, and drops queued messages.
func (p *Pub) Close() { p.server.Close() }
