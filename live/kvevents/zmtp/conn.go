package zmtp

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/bell"
	"github.com/replay-llm/replay/internal/excerpt"
)

// ErrClosed means that a connection or socket was closed on this side.
var ErrClosed = errors.New("zmtp: closed")

// conn is a connection after its handshake. Any goroutine may send; one goroutine reads.
type conn struct {
	net    net.Conn
	in     *bufio.Reader
	minor  byte // minor number of the peer's ZMTP version
	limit  int  // maximum bytes of a frame from the peer
	silent time.Duration

	mu     sync.Mutex
	queue  [][]byte  // encoded messages that wait to be written
	size   int       // total bytes of queue
	urgent []byte    // encoded commands, which are written before queue
	wake   bell.Bell // rings when there is data to write

	alive     context.Context // ends with the connection
	end       context.CancelFunc
	subscribe func(topic string, on bool)
	ponged    func()
}

// shakeHands makes the handshake on a TCP connection, and starts the writer.
func shakeHands(n net.Conn, t Type, limit int) (*conn, error) {
	if err := n.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return nil, err
	}
	c := &conn{net: n, limit: limit, wake: bell.New()}
	c.alive, c.end = context.WithCancel(context.Background())
	c.in = bufio.NewReaderSize(deadlines{c}, 64<<10)
	if _, err := n.Write(appendGreeting(nil)); err != nil {
		return nil, err
	}
	var err error
	if c.minor, err = readGreeting(c.in); err != nil {
		return nil, err
	}
	if _, err = n.Write(appendReady(nil, t)); err != nil {
		return nil, err
	}
	if err := readReady(c.in, t); err != nil {
		return nil, err
	}
	if err := n.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	go c.writeQueued()
	return c, nil
}

// handshakeTime is the time limit of a handshake.
const handshakeTime = 5 * time.Second

// deadlines is a reader that fails after the connection's maximum silence.
type deadlines struct{ c *conn }

func (d deadlines) Read(p []byte) (int, error) {
	if d.c.silent > 0 {
		if err := d.c.net.SetReadDeadline(time.Now().Add(d.c.silent)); err != nil {
			return 0, err
		}
	}
	return d.c.net.Read(p)
}

// maxQueued is the maximum total size of the messages that wait for one peer, in bytes.
const maxQueued = 512 << 20

// queueMessage queues an encoded message. queueMessage reports false if bound messages are queued or the connection
// has ended.
func (c *conn) queueMessage(wire []byte, bound int) bool {
	c.mu.Lock()
	if c.alive.Err() != nil || len(c.queue) >= bound || c.size+len(wire) > maxQueued {
		c.mu.Unlock()
		return false
	}
	c.queue = append(c.queue, wire)
	c.size += len(wire)
	c.mu.Unlock()
	c.wake.Ring()
	return true
}

// maxUrgent is the maximum total size of the commands that wait, in bytes.
const maxUrgent = 64 << 10

// queueCommand queues a command, which is written before all messages.
func (c *conn) queueCommand(name string, body []byte) {
	c.mu.Lock()
	if len(c.urgent) < maxUrgent {
		c.urgent = appendCommand(c.urgent, name, body)
	}
	c.mu.Unlock()
	c.wake.Ring()
}

// maxWrite is the maximum number of messages per write. The other messages stay in the queue and count against its
// bound.
const maxWrite = 64

// writeQueued writes the queued data until the connection is closed.
func (c *conn) writeQueued() {
	var out net.Buffers
	for {
		out = c.takeQueued(out[:0])
		if len(out) == 0 {
			select {
			case <-c.wake:
				continue
			case <-c.alive.Done():
				return
			}
		}
		all := out // WriteTo consumes its receiver
		if _, err := all.WriteTo(c.net); err != nil {
			c.closeConn()
			return
		}
		clear(out)
	}
}

func (c *conn) takeQueued(out net.Buffers) net.Buffers {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.urgent) > 0 {
		out = append(out, c.urgent)
		c.urgent = nil
	}
	n := min(maxWrite, len(c.queue))
	for _, wire := range c.queue[:n] {
		out = append(out, wire)
		c.size -= len(wire)
	}
	clear(c.queue[:n])
	if c.queue = c.queue[n:]; len(c.queue) == 0 {
		c.queue = nil
	}
	return out
}

// receiveMessage reads the next message, and executes the commands before it.
func (c *conn) receiveMessage() (Message, error) {
	var m Message
	for {
		f, err := readFrame(c.in, c.limit)
		if err != nil {
			return nil, err
		}
		if f.isCommand() {
			if len(m) > 0 {
				return nil, errors.New("command in the middle of a message")
			}
			if err := c.obeyCommand(f.body); err != nil {
				return nil, err
			}
			continue
		}
		if m = append(m, f.body); !f.hasMore() {
			return m, nil
		}
		if len(m) == maxFrames {
			return nil, fmt.Errorf("message of more than %d frames", maxFrames)
		}
	}
}

// obeyCommand executes a command. Unknown commands are ignored.
func (c *conn) obeyCommand(body []byte) error {
	name, rest, err := parseCommand(body)
	if err != nil {
		return err
	}
	switch name {
	case "PING":
		if len(rest) < 2 || len(rest) > 2+16 {
			return fmt.Errorf("PING of %d bytes, must be 2 to 18", len(rest))
		}
		if ttl := binary.BigEndian.Uint16(rest); ttl > 0 {
			c.silent = time.Duration(ttl) * 100 * time.Millisecond
		}
		c.queueCommand("PONG", rest[2:])
	case "PONG":
		if c.ponged != nil {
			c.ponged()
		}
	case "SUBSCRIBE", "CANCEL":
		if c.subscribe != nil {
			c.subscribe(string(rest), name == "SUBSCRIBE")
		}
	case "ERROR":
		return excerpt.Errorf("peer gave up: %q", rest)
	}
	return nil
}

// queuePing asks the peer for a PONG. The peer may close the connection if it receives nothing for ttl.
func (c *conn) queuePing(ttl time.Duration) {
	c.queueCommand("PING", binary.BigEndian.AppendUint16(nil, uint16(ttl/(100*time.Millisecond))))
}

// closeConn closes the connection at once, and drops queued messages.
func (c *conn) closeConn() {
	c.end()
	_ = c.net.Close() // errors have no effect here
}
