package zmtp

import (
	"context"
	"fmt"
	"net"
	"time"
)

// maxFromSocket is the maximum size of a frame from a dialled socket, in bytes.
const maxFromSocket = 64 << 20

// Dial connects to an address, host:port. A nil Dial connects to any address.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// dialEndpoint connects to an endpoint and makes the handshake.
func (dial Dial) dialEndpoint(ctx context.Context, endpoint string, t Type) (*conn, error) {
	at, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	dialing, release := context.WithTimeout(ctx, handshakeTime)
	defer release()
	if dial == nil {
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	n, err := dial(dialing, at)
	if err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", endpoint, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = n.Close() })
	c, err := shakeHands(n, t, maxFromSocket)
	if err != nil {
		stop()
		_ = n.Close()
		return nil, fmt.Errorf("endpoint %s: %w", endpoint, err)
	}
	if !stop() {
		c.closeConn()
		return nil, context.Cause(ctx)
	}
	return c, nil
}

// Dealer is one connection of a DEALER socket, for one request and its answer.
type Dealer struct {
	conn *conn
	stop func() bool
}

// Dealer connects to a ROUTER socket. The end of ctx closes the connection. Receive fails if the peer sends nothing
// for the time silence.
func (dial Dial) Dealer(ctx context.Context, endpoint string, silence time.Duration) (*Dealer, error) {
	c, err := dial.dialEndpoint(ctx, endpoint, TypeDealer)
	if err != nil {
		return nil, err
	}
	c.silent = silence
	return &Dealer{conn: c, stop: context.AfterFunc(ctx, c.closeConn)}, nil
}

// Send queues a message.
func (d *Dealer) Send(m Message) error {
	if !d.conn.queueMessage(packMessage(m), maxFrames) {
		return ErrClosed
	}
	return nil
}

// Receive waits for the next message.
func (d *Dealer) Receive() (Message, error) { return d.conn.receiveMessage() }

// Close closes the connection at once.
func (d *Dealer) Close() {
	d.stop()
	d.conn.closeConn()
}

// CheckEndpoint returns an error if endpoint is not valid.
func CheckEndpoint(endpoint string) error {
	_, err := parseEndpoint(endpoint)
	return err
}
