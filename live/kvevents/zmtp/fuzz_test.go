package zmtp

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/replay-llm/replay/internal/bell"
)

func TestEndpoints(t *testing.T) {
	for e, want := range map[string]string{"tcp://127.0.0.1:5557": "127.0.0.1:5557", "tcp://*:0": ":0", "tcp://[::1]:80": "[::1]:80"} {
		if got, err := parseEndpoint(e); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", e, got, err, want)
		}
	}
	for _, e := range []string{"", "127.0.0.1:80", "ipc:///x", "tcp://x", "tcp://x:", "tcp://*:*"} {
		if _, err := parseEndpoint(e); err == nil || CheckEndpoint(e) == nil {
			t.Errorf("%q was taken", e)
		}
	}
}

// For any input of a peer, the reader ends, and allocates at most the size of the input.
func FuzzPeer(f *testing.F) {
	f.Add(append(appendReady(appendGreeting(nil), TypeSub), packMessage(Message{nil, []byte("ab")})...))
	f.Add(appendCommand(appendReady(appendGreeting(nil), TypeSub), "PING", []byte{0, 1, 2}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReader(bytes.NewReader(b))
		if _, err := readGreeting(r); err != nil {
			return
		}
		if err := readReady(r, TypePub); err != nil {
			return
		}
		c := &conn{in: r, limit: maxFromPeers, wake: bell.New()}
		for {
			if _, err := c.receiveMessage(); err != nil {
				return
			}
		}
	})
}
