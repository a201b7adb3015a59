// Package listen opens all listeners of the programs. A listener that other machines can reach requires credentials,
// or a flag that allows access without credentials.
package listen

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"
)

// Open listens at a TCP address. The parameter what names the listener in errors. The parameter missing names the
// missing requirement for a listener outside loopback, or is "" if all requirements are met.
func Open(what, address, missing string) (net.Listener, error) {
	at, err := Check(what, address, missing)
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{KeepAliveConfig: KeepAlive()}).Listen(context.Background(), "tcp", at.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return l, nil
}

// Check returns the address at which Open listens. Check returns an error for an address outside loopback if missing
// is not "".
func Check(what, address, missing string) (*net.TCPAddr, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", what, address, err)
	}
	if at.IP == nil {
		at.IP = net.IPv4zero
	}
	if !at.IP.IsLoopback() && missing != "" {
		return nil, fmt.Errorf("%s at %s, which other machines may reach: requires %s", what, at.IP, missing)
	}
	return at, nil
}

// Dialable returns the host and port at which clients reach a listener. For a listener on all addresses the host is
// RoutableAddress.
func Dialable(at net.Addr) string {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return at.String()
	}
	return net.JoinHostPort(RoutableAddress(), strconv.Itoa(tcp.Port))
}

// RoutableAddress returns the first routable IPv4 address of this machine. Without IPv4 it returns the first routable
// IPv6 address, and otherwise 127.0.0.1.
func RoutableAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	return firstRoutable(addresses)
}

func firstRoutable(addresses []net.Addr) string {
	first := "127.0.0.1"
	for _, a := range addresses {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || !n.IP.IsGlobalUnicast():
		case n.IP.To4() != nil:
			return n.IP.String()
		case first == "127.0.0.1":
			first = n.IP.String()
		}
	}
	return first
}

// KeepAlive returns TCP keep-alive settings that close an idle connection 30 seconds after the other machine fails.
func KeepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}
}
