package zmtp

import (
	"context"
	"fmt"
	"net"
	"time"
)

// maxFromSocket bounds a frame of a socket that was dialled, in bytes.
const maxFromSocket = 64 << 20

// Dial connects to an address, host:port; nil: to any.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// dialEndpoint connects to an endpoint and shakes hands.
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

// Dealer is one connection of a DEALER socket: for one question and its answer.
type Dealer struct {
	conn *conn
	stop func() bool
}

// Dealer connects to a ROUTER socket. The end of ctx closes the connection.
// A silence of more than the given time while something is awaited is an error.
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

// CheckEndpoint returns what is wrong with an endpoint, if anything is.
func CheckEndpoint(endpoint string) error {
	_, err := parseEndpoint(endpoint)
	return err
}
