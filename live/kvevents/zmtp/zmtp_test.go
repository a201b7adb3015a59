package zmtp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/replay-llm/replay/internal/poll"
)

// hang is the timeout of a test, longer than any step needs.
const hang = 2 * time.Minute

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	t.Cleanup(cancel)
	return ctx
}

// The encoded bytes equal the examples in the protocol's specification.
func TestBytes(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 256)
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"greeting": {appendGreeting(nil), "ff00000000000000017f" + "0301" + hex.EncodeToString([]byte("NULL")) + strings.Repeat("00", 16) + "00" + strings.Repeat("00", 31)},
		"ready": {appendReady(nil, TypePub), "0419" + "05" + hex.EncodeToString([]byte("READY")) +
			"0b" + hex.EncodeToString([]byte("Socket-Type")) + "00000003" + hex.EncodeToString([]byte("PUB"))},
		"message":   {packMessage(Message{nil, []byte("ab")}), "0100" + "00026162"},
		"long":      {packMessage(Message{long, nil}), "030000000000000100" + hex.EncodeToString(long) + "0000"},
		"subscribe": {appendCommand(nil, "SUBSCRIBE", []byte("A")), "040b09" + hex.EncodeToString([]byte("SUBSCRIBEA"))},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s is %s, want %s", name, got, c.want)
		}
	}
}

func TestBadFrames(t *testing.T) {
	for in, want := range map[string]string{
		"08 00":                         "flags of a frame are 0x08",
		"05 00":                         "flags of a frame are 0x05",
		"00 ff":                         "frame of 255 bytes, must be at most 100",
		"02 00 00 00 00 00 00 00 65":    "frame of 101 bytes",
		"02 ff ff ff ff ff ff ff ff":    "frame of 18446744073709551615 bytes",
		"02 00 00":                      io.ErrUnexpectedEOF.Error(),
		"00 05 01":                      io.ErrUnexpectedEOF.Error(),
		"00":                            io.ErrUnexpectedEOF.Error(),
		"":                              io.EOF.Error(),
		"02 00 00 00 00 00 00 00 02 01": io.ErrUnexpectedEOF.Error(),
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(in, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readFrame(bufio.NewReader(bytes.NewReader(b)), 100); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

func listenPub(t testing.TB, bound int) *Pub {
	t.Helper()
	p, err := ListenPub(Listener{Endpoint: "tcp://127.0.0.1:0"}, bound)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func subscribeTo(t testing.TB, endpoint, topic string, o SubOptions) *Sub {
	t.Helper()
	s, err := NewSub(endpoint, topic, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// connected reads deliveries until the subscription is confirmed.
func connected(t testing.TB, s *Sub) {
	t.Helper()
	for ctx := within(t); ; {
		in, err := s.Receive(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(in, func(d Delivery) bool { return d.Connected }) {
			return
		}
	}
}

// receive reads n messages and returns their last frames.
func receive(t testing.TB, s *Sub, n int) []string {
	t.Helper()
	var out []string
	for ctx := within(t); len(out) < n; {
		in, err := s.Receive(ctx, nil)
		if err != nil {
			t.Fatalf("after %d messages: %v", len(out), err)
		}
		for _, d := range in {
			if d.Message != nil {
				out = append(out, string(d.Message[len(d.Message)-1]))
			}
		}
	}
	return out
}

// After the subscription, the messages of the topic arrive in order.
func TestPublish(t *testing.T) {
	p := listenPub(t, 1000)
	all, some := subscribeTo(t, p.Endpoint(), "", SubOptions{}), subscribeTo(t, p.Endpoint(), "kv", SubOptions{})
	connected(t, all)
	connected(t, some)
	if n := p.Subscribers(); n != 2 {
		t.Errorf("%d subscribers, want 2", n)
	}
	for i := range 100 {
		topic := []string{"kv@1", "other"}[i%2]
		if missed := p.Send(Message{[]byte(topic), nil, fmt.Append(nil, i)}); missed != 0 {
			t.Errorf("message %d: %d missed it", i, missed)
		}
	}
	for i, m := range receive(t, all, 100) {
		if m != fmt.Sprint(i) {
			t.Fatalf("message %d is %q", i, m)
		}
	}
	for i, m := range receive(t, some, 50) {
		if m != fmt.Sprint(2*i) {
			t.Fatalf("message %d of the topic is %q", i, m)
		}
	}
}

// raw connects and makes the handshake, and reads nothing more.
func raw(t testing.TB, endpoint string, role Type) (net.Conn, *bufio.Reader) {
	t.Helper()
	at, err := parseEndpoint(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Write(appendReady(appendGreeting(nil), role)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	if _, err := readGreeting(r); err != nil {
		t.Fatal(err)
	}
	if _, err := readFrame(r, handshakeLimit); err != nil {
		t.Fatal(err)
	}
	return c, r
}

// A subscriber that does not read misses messages. The publisher and other peers are not affected.
func TestSlowSubscriber(t *testing.T) {
	const bound = 8
	p := listenPub(t, bound)
	stalled, _ := raw(t, p.Endpoint(), TypeSub)
	if _, err := stalled.Write(appendCommand(nil, "SUBSCRIBE", nil)); err != nil {
		t.Fatal(err)
	}
	healthy := subscribeTo(t, p.Endpoint(), "", SubOptions{})
	connected(t, healthy)
	poll.Until(t, "two subscribers", func() bool { return p.Subscribers() == 2 })
	missed, body := 0, make([]byte, 1<<20)
	for i := 0; missed < 10; i++ {
		if i == 1000 {
			t.Fatalf("a peer that does not read has missed %d of %d messages of 1 MiB", missed, i)
		}
		missed += p.Send(Message{nil, body, fmt.Append(nil, i)})
		if got := receive(t, healthy, 1); got[0] != fmt.Sprint(i) {
			t.Fatalf("the other got %q, want %d", got[0], i)
		}
	}
}

// A peer that does not read its answer is disconnected. The peer never receives an answer with a missing message.
func TestSlowDealer(t *testing.T) {
	r, err := ListenRouter(Listener{Endpoint: "tcp://127.0.0.1:0"}, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, in := raw(t, r.Endpoint(), TypeDealer)
	if _, err := c.Write(packMessage(Message{nil, []byte("q")})); err != nil {
		t.Fatal(err)
	}
	q := <-r.Requests()
	sent, body := 0, make([]byte, 1<<20)
	for q.Reply(Message{nil, fmt.Append(nil, sent), body}) {
		if sent++; sent == 1000 {
			t.Fatal("1,000 messages of 1 MiB were taken for a peer that does not read")
		}
	}
	if q.Reply(Message{[]byte("more")}) {
		t.Error("a peer that was cut off gets another message")
	}
	for i := 0; ; i++ {
		var number frame
		if _, err = readFrame(in, 1<<21); err == nil {
			if number, err = readFrame(in, 1<<21); err == nil {
				_, err = readFrame(in, 1<<21)
			}
		}
		if err != nil {
			return // the connection was closed
		}
		if string(number.body) != fmt.Sprint(i) {
			t.Fatalf("message %q, want %d", number.body, i)
		}
	}
}

// Peers that violate the protocol are soon disconnected, and do not affect other peers.
func TestBadPeers(t *testing.T) {
	p := listenPub(t, 1000)
	at, err := parseEndpoint(p.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	shaken := appendReady(appendGreeting(nil), TypeSub)
	for name, bytes := range map[string][]byte{
		"http":             []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n" + strings.Repeat(" ", 64)),
		"zmtp 2":           append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 1}, make([]byte, 53)...),
		"another security": append(slices.Concat([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0}, []byte("CURVE")), make([]byte, 47)...),
		"a push socket":    appendReady(appendGreeting(nil), "PUSH"),
		"no ready":         append(appendGreeting(nil), packMessage(Message{[]byte("x")})...),
		"torn metadata":    append(appendGreeting(nil), appendCommand(nil, "READY", []byte{11, 'S'})...),
		"a huge frame":     append(slices.Clone(shaken), 2, 0, 0x10, 0, 0, 0, 0, 0, 0),
		"endless frames":   append(slices.Clone(shaken), bytes.Repeat([]byte{1, 0}, 100)...),
		"a nameless one":   append(slices.Clone(shaken), 4, 1, 200),
		"a torn ping":      append(slices.Clone(shaken), appendCommand(nil, "PING", []byte{1})...),
		"a command inside": append(slices.Clone(shaken), append([]byte{1, 0}, appendCommand(nil, "PING", []byte{0, 0})...)...),
	} {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(bytes); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(hang))
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Errorf("%s: the connection stands", name)
		}
		_ = c.Close()
	}
	s := subscribeTo(t, p.Endpoint(), "", SubOptions{})
	connected(t, s)
	p.Send(Message{nil, []byte("well")})
	if got := receive(t, s, 1); got[0] != "well" {
		t.Errorf("got %q", got)
	}
}

func isTimeout(err error) bool {
	n, ok := err.(net.Error)
	return ok && n.Timeout()
}

// A Sub reconnects if a publisher is silent, and finds a publisher that is restarted.
func TestReconnect(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	quick := SubOptions{Heartbeat: 10 * time.Millisecond, Silence: 200 * time.Millisecond, Retry: time.Millisecond, RetryMost: 10 * time.Millisecond}
	s := subscribeTo(t, "tcp://"+l.Addr().String(), "", quick)
	for range 2 { // makes the handshake and sends nothing more, twice
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(appendReady(appendGreeting(nil), TypePub)); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	_ = l.Close()
	p, err := ListenPub(Listener{Endpoint: "tcp://" + l.Addr().String()}, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	poll.Until(t, "a message", func() bool {
		p.Send(Message{[]byte("back")})
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.queue, func(d Delivery) bool { return len(d.Message) == 1 && string(d.Message[0]) == "back" })
	})
}

// After all sockets are closed, no goroutine is left, in any state of the connections.
func TestNothingLeft(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p, err := ListenPub(Listener{Endpoint: "tcp://127.0.0.1:0"}, 10)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ListenRouter(Listener{Endpoint: "tcp://127.0.0.1:0"}, 10)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSub(p.Endpoint(), "", SubOptions{})
	if err != nil {
		t.Fatal(err)
	}
	nowhere, err := NewSub("tcp://127.0.0.1:1", "", SubOptions{})
	if err != nil {
		t.Fatal(err)
	}
	connected(t, s)
	ctx, cancel := context.WithCancel(within(t))
	d, err := Dial(nil).Dealer(ctx, r.Endpoint(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * maxRequests { // more than a server accepts
		if err := d.Send(Message{nil, []byte("q")}); err != nil {
			t.Fatal(err)
		}
	}
	silent, _ := raw(t, r.Endpoint(), TypeDealer)
	defer silent.Close()
	cancel()
	if _, err := d.Receive(); err == nil {
		t.Error("an answer out of nowhere")
	}
	d.Close()
	p.Close()
	r.Close()
	s.Close()
	nowhere.Close()
}
