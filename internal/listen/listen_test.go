package listen

import (
	"net"
	"strings"
	"testing"
)

// A listener on loopback has no requirements. Other listeners are rejected if a requirement is missing.
func TestOpen(t *testing.T) {
	for address, open := range map[string]bool{"127.0.0.1:0": true, "localhost:0": true, "0.0.0.0:0": false, ":0": false, "[::]:0": false, "192.0.2.1:0": false} {
		l, err := Open("requests", address, "a token")
		if open != (err == nil) || err != nil && !strings.Contains(err.Error(), "which other machines may reach: requires a token") {
			t.Errorf("%s: %v", address, err)
		}
		if err == nil {
			l.Close()
		}
	}
	l, err := Open("requests", "0.0.0.0:0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", Dialable(l.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if at := Dialable(l.Addr()); !strings.HasPrefix(at, RoutableAddress()+":") {
		t.Errorf("dialable at %s", at)
	}
	if _, err := Open("requests", l.Addr().String(), ""); err == nil || !strings.HasPrefix(err.Error(), "requests: ") {
		t.Errorf("an address in use: %v", err)
	}
}

// Machines without IPv4 have an IPv6 address. Link-local addresses are not routable.
func TestFirstRoutable(t *testing.T) {
	for want, all := range map[string][]string{
		"127.0.0.1": {"127.0.0.1/8", "::1/128", "fe80::1/64", "169.254.1.1/16"},
		"10.0.0.2":  {"127.0.0.1/8", "fd00::2/64", "10.0.0.2/8", "10.0.0.3/8"},
		"fd00::2":   {"127.0.0.1/8", "fe80::1/64", "fd00::2/64", "fd00::3/64"},
	} {
		var addresses []net.Addr
		for _, text := range all {
			ip, n, err := net.ParseCIDR(text)
			if err != nil {
				t.Fatal(err)
			}
			n.IP = ip
			addresses = append(addresses, n)
		}
		if got := firstRoutable(addresses); got != want {
			t.Errorf("%v: %s, want %s", all, got, want)
		}
	}
}
