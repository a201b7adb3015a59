package drt_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
	"github.com/replay-llm/replay/live/fault"
)

// Callers of both planes send requests directly to a worker that registers a TCP address.
func TestTCPPlane(t *testing.T) {
	_, config := servers(t, stack.Options{MaxPayload: 1 << 20})
	direct := config
	direct.Plane = drt.TCP
	worker := join(t, direct)
	serving := serve(t, worker, "generate", counter, drt.ServeOptions{})
	serve(t, worker, "generate2", counter, drt.ServeOptions{})
	for _, config := range []drt.Config{direct, config} {
		c := client(t, join(t, config), "generate", 1)
		if i := c.Instances()[0]; i.Transport.Subject != "" || !strings.HasSuffix(i.Transport.Address, "/generate") {
			t.Errorf("transport %+v, want an address", i.Transport)
		}
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				for range 5 {
					if got, err := call(t, c, `{"n":2}`, drt.RoundRobin()); err != nil || got != `0 1 "done"` {
						t.Errorf("%q, %v", got, err)
					}
				}
			})
		}
		all.Wait()
		// The request of 2 MiB exceeds the limit of NATS.
		if got, err := call(t, c, `{"n":1,"pad":"`+strings.Repeat("x", 2<<20)+`"}`, drt.RoundRobin()); err != nil || got != `0 "done"` {
			t.Errorf("a large request: %q, %v", got, err)
		}
	}
	c := client(t, join(t, direct), "generate", 1)
	address, path, _ := strings.Cut(c.Instances()[0].Transport.Address, "/")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := answer(t, conn, "0/nothing", "{}", []byte("x")); got != "no worker serves 0/nothing" {
		t.Errorf("another path: %q", got)
	}
	if got := answer(t, conn, path, "{}", []byte("no frame at all, but long enough")); !strings.Contains(got, "frame") {
		t.Errorf("no frame: %q", got)
	}
	if _, err := conn.Write([]byte{0, 1, 'x', 0, 1, '{', 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, conn); n != 0 || err != nil {
		t.Errorf("headers that are not JSON: %d bytes, %v, want an end", n, err)
	}
	serving.Refuse()
	if _, err := call(t, c, `{}`, drt.RoundRobin()); !errors.Is(err, fault.CannotConnect) {
		t.Errorf("refused: %v, want CannotConnect", err)
	}
}

// answer sends a request over conn and returns the worker's answer.
func answer(t *testing.T, conn net.Conn, path, headers string, payload []byte) string {
	t.Helper()
	b := binary.BigEndian.AppendUint16(nil, uint16(len(path)))
	b = binary.BigEndian.AppendUint16(append(b, path...), uint16(len(headers)))
	b = binary.BigEndian.AppendUint32(append(b, headers...), uint32(len(payload)))
	if _, err := conn.Write(append(b, payload...)); err != nil {
		t.Fatal(err)
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(conn, text); err != nil {
		t.Fatal(err)
	}
	return string(text)
}
