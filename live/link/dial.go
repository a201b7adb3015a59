package link

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/replay-llm/replay/internal/listen"
)

// RefusedError is the line that a listener sends when it refuses a connection.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "it refuses us: " + e.Reason }

// longestRefusal is the maximum length of a refusal, in bytes.
const longestRefusal = 512

// refusalOf reads the rest of a refusal that starts with line.
func refusalOf(c net.Conn, line string) error {
	if !strings.Contains(line, "\n") {
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		rest, _ := io.ReadAll(io.LimitReader(c, longestRefusal)) // the rest of the refusal, up to its end
		line += string(rest)
	}
	line, _, _ = strings.Cut(line, "\n")
	return &RefusedError{line[:min(len(line), longestRefusal)]}
}

// Dial connects to an allowed address, and authenticates as its listener requires.
func (l *Links) Dial(ctx context.Context, address string) (net.Conn, error) {
	raw, err := l.DialPlain(ctx, address)
	if err != nil {
		return nil, err
	}
	if at, ok := raw.RemoteAddr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
		return raw, nil
	}
	if !l.wantsProof() {
		return &refusable{Conn: raw, address: address}, nil
	}
	c, err := l.proveTo(ctx, raw, address)
	if err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return c, nil
}

// proveTo authenticates to a listener.
func (l *Links) proveTo(ctx context.Context, raw net.Conn, address string) (net.Conn, error) {
	defer context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })()
	if err := raw.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return nil, err
	}
	c := raw
	if l.client != nil {
		config := l.client
		if config.ServerName == "" {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			config = config.Clone()
			config.ServerName = host
		}
		secure := tls.Client(raw, config)
		if err := secure.Handshake(); err != nil {
			return nil, err
		}
		c = secure
	}
	if l.token != "" {
		if err := proveDialer(c, l.token); err != nil {
			return nil, err
		}
	} else {
		c = &refusable{Conn: c, address: address}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return c, raw.SetDeadline(time.Time{})
}

// DialPlain connects to an allowed address without authentication, for protocols that have none.
func (l *Links) DialPlain(ctx context.Context, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{KeepAliveConfig: listen.KeepAlive()}
	if !l.allowed.hasName(host) {
		// The check runs after the name is resolved, on the resolved address.
		d.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			return l.allowed.checkAddress(resolved)
		}
	}
	return d.DialContext(ctx, "tcp", address)
}

// CheckDial returns an error if an address may not be dialled. CheckDial does not resolve names.
func (l *Links) CheckDial(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || net.ParseIP(host) == nil || l.allowed.hasName(host) {
		return err
	}
	return l.allowed.checkAddress(address)
}

// refusable is a connection on which the first line may be a refusal. Only one goroutine reads a refusable.
type refusable struct {
	net.Conn
	address string
	seen    bool
}

func (c *refusable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.seen || n == 0 {
		return n, err
	}
	c.seen = true
	// A short read may return only the start of the prefix. No answer of this protocol begins with the same bytes.
	if line := string(p[:n]); line[0] == refusalPrefix[0] && strings.HasPrefix(refusalPrefix, line[:min(n, 4)]) {
		rest := refusalOf(c.Conn, line)
		if r, ok := rest.(*RefusedError); ok {
			r.Reason = strings.TrimPrefix(r.Reason, refusalPrefix)
		}
		return 0, fmt.Errorf("%s: %w", c.address, rest)
	}
	return n, err
}

// CloseWrite closes the sending side of the connection.
func (c *refusable) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
