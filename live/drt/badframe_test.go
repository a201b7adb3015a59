package drt_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/replay-llm/replay/internal/wire"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
	"github.com/replay-llm/replay/live/fault"
)

// plain returns a new connection to NATS.
func plain(t *testing.T, s *stack.Stack) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(s.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// promise returns a frame header that declares these lengths, without the content.
func promise(header, body uint64) []byte {
	b := binary.BigEndian.AppendUint64(nil, header)
	b = binary.BigEndian.AppendUint64(b, body)
	return append(b, make([]byte, 8)...)
}

// Malformed requests are refused and counted. A concurrent good request is not affected.
func TestBadRequests(t *testing.T) {
	s, config := servers(t, stack.Options{})
	rt := join(t, config)
	m := newCounts()
	serve(t, rt, "generate", counter, drt.ServeOptions{Metrics: m.Endpoint})
	c := client(t, join(t, config), "generate", 1)
	rc := cancel.New("")
	next := open(t, c, rc)

	good, err := wire.NewRequest(wire.CallHome{Address: "127.0.0.1:1", Subject: "s", Context: "c"}, 0, []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	sum := good.Append(nil)
	sum[len(sum)-1] ^= 1
	conn := plain(t, s)
	subject := c.Instances()[0].Transport.Subject
	for _, test := range []struct {
		name, kind string
		bytes      []byte
	}{
		{"no bytes", "deserialization", nil},
		{"random bytes", "deserialization", bytes.Repeat([]byte("replay"), 100)},
		{"truncated", "deserialization", good.Append(nil)[:40]},
		{"length", "deserialization", promise(1<<62, 1)},
		{"checksum", "deserialization", sum},
		{"header is not JSON", "deserialization", wire.Frame{Header: []byte("{"), Body: []byte("{}")}.Append(nil)},
		{"body is not JSON", "deserialization", wire.Frame{Header: good.Header, Body: []byte("{")}.Append(nil)},
		{"no body", "invalid_message", wire.Frame{Header: good.Header}.Append(nil)},
		{"no header", "invalid_message", wire.Frame{Body: good.Body}.Append(nil)},
		{"another header", "invalid_message", wire.Frame{Header: []byte(`{"id":"x"}`), Body: []byte("{}")}.Append(nil)},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := m.failures(test.kind)
			answer, err := conn.RequestWithContext(limited(t), subject, test.bytes)
			if err != nil {
				t.Fatal(err)
			}
			if code := answer.Header.Get(micro.ErrorCodeHeader); code != "400" {
				t.Errorf("code %q, want 400", code)
			}
			if n := m.failures(test.kind) - before; n != 1 {
				t.Errorf("%s counted %d times, want once", test.kind, n)
			}
		})
	}
	if _, err := conn.RequestWithContext(limited(t), subject, good.Append(nil)); err != nil {
		t.Fatal(err)
	}
	finish(t, rc, next)
	if n := m.cancelled(); n != 1 {
		t.Errorf("%d cancellations counted, want that of the good request", n)
	}
}

// caller is the connection of a worker to a simulated caller.
type caller struct {
	conn net.Conn
	from *wire.Reader
}

// ask sends a request without a drt.Client. ask returns the worker's connection after hello and prologue.
func ask(t *testing.T, conn *nats.Conn, subject, payload string) caller {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := wire.NewRequest(wire.CallHome{Address: l.Addr().String(), Subject: cancel.NewID(), Context: cancel.NewID()}, 0, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.RequestWithContext(limited(t), subject, f.Append(nil)); err != nil {
		t.Fatal(err)
	}
	home, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { home.Close() })
	c := caller{home, wire.NewReader(home, 0)}
	for range 2 {
		if f, err := c.from.Read(); err != nil || f.Kind() != wire.Control {
			t.Fatalf("%q, %v: want hello and prologue", f.Header, err)
		}
	}
	return c
}

// rest returns the remaining frames of the worker, up to a sentinel.
func (c caller) rest() (all []string) {
	for {
		f, err := c.from.Read()
		if err != nil {
			return all
		}
		all = append(all, string(f.Header)+string(f.Body))
		if string(f.Header) == `"sentinel"` {
			return all
		}
	}
}

// A stop from the caller ends the answer with its terminal item. Any other message kills the request. Each stop or
// kill counts as one cancellation.
func TestWhatCallersSay(t *testing.T) {
	s, config := servers(t, stack.Options{})
	rt := join(t, config)
	m := newCounts()
	serving := serve(t, rt, "generate", counter, drt.ServeOptions{Metrics: m.Endpoint})
	conn := plain(t, s)
	subject := fmt.Sprintf("test_backend.generate-%x", rt.ID())
	signal := func(w wire.Signal) []byte { return wire.NewSignal(w).Append(nil) }
	drained := []string{`{"data":{"data":"cancelled"},"complete_final":false}`, `{"complete_final":true}`, `"sentinel"`}
	for _, test := range []struct {
		name  string
		say   []byte
		close bool
		want  []string
	}{
		{"stop", signal(wire.Stop), false, drained},
		{"stop twice", append(signal(wire.Stop), signal(wire.Stop)...), false, drained},
		{"empty frame, stop", append(wire.Frame{}.Append(nil), signal(wire.Stop)...), false, drained},
		{"kill", signal(wire.Kill), false, nil},
		{"stop, close", signal(wire.Stop), true, nil},
		{"close", nil, true, nil},
		{"sentinel", signal(wire.Sentinel), false, nil},
		{"data", wire.NewFinal().Append(nil), false, nil},
		{"not JSON", wire.Frame{Header: []byte("stop")}.Append(nil), false, nil},
		{"random bytes", bytes.Repeat([]byte("replay"), 100), false, nil},
		{"length", promise(1<<62, 1<<62), false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := m.cancelled()
			c := ask(t, conn, subject, `{"block":true}`)
			if _, err := c.conn.Write(test.say); err != nil {
				t.Fatal(err)
			}
			var got []string
			if test.close {
				c.conn.Close()
			} else {
				if got = c.rest(); strings.Join(got, "\n") != strings.Join(test.want, "\n") {
					t.Errorf("got %q, want %q", got, test.want)
				}
				c.conn.Close()
			}
			if err := serving.Wait(limited(t)); err != nil {
				t.Fatal(err)
			}
			if n := m.cancelled() - before; n != 1 {
				t.Errorf("%d cancellations counted, want 1", n)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		before := m.cancelled()
		c := ask(t, conn, subject, `{"n":1}`)
		if got := strings.Join(c.rest3(t), "\n"); got != `{"data":{"data":0},"complete_final":false}`+"\n"+`{"data":{"data":"done"},"complete_final":false}`+"\n"+`{"complete_final":true}` {
			t.Errorf("got %s", got)
		}
		_, _ = c.conn.Write(signal(wire.Stop)) // the stop arrives after the last item
		c.conn.Close()
		if err := serving.Wait(limited(t)); err != nil {
			t.Fatal(err)
		}
		if n := m.cancelled() - before; n != 0 {
			t.Errorf("%d cancellations counted, want none", n)
		}
	})
}

// rest3 returns the next three frames.
func (c caller) rest3(t *testing.T) (all []string) {
	t.Helper()
	for range 3 {
		f, err := c.from.Read()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(f.Header)+string(f.Body))
	}
	return all
}

// fake registers an instance. For each request, fake connects to the caller and calls do.
func fake(t *testing.T, s *stack.Stack, id uint64, do func(subject string, conn net.Conn)) {
	t.Helper()
	conn := plain(t, s)
	subject := fmt.Sprintf("test_backend.generate-%x", id)
	if _, err := conn.Subscribe(subject, func(m *nats.Msg) {
		_ = m.Respond(nil)
		f, err := wire.Decode(m.Data, 0)
		if err != nil {
			t.Error(err)
			return
		}
		_, home, err := wire.ParseRequest(f)
		if err != nil {
			t.Error(err)
			return
		}
		c, err := net.Dial("tcp", home.Address)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		do(home.Subject, c)
	}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	value := fmt.Sprintf(`{"type":"Endpoint","namespace":"test","component":"backend","endpoint":"generate","instance_id":%d,"transport":{"nats_tcp":%q}}`, id, subject)
	if _, err := etcd(t, s).Put(limited(t), fmt.Sprintf("v1/instances/test/backend/generate/%x", id), value); err != nil {
		t.Fatal(err)
	}
}

// For each sequence of frames from a worker, the caller gets these items and this error.
func TestWhatWorkersSay(t *testing.T) {
	s, config := servers(t, stack.Options{})
	type script struct {
		say  []byte
		hold bool // keep the connection open until the caller closes it
	}
	scripts := make(chan script, 1)
	fake(t, s, 5, func(subject string, conn net.Conn) {
		now := <-scripts
		_, _ = conn.Write(append(wire.NewHello(subject).Append(nil), now.say...))
		if now.hold {
			_, _ = io.Copy(io.Discard, conn)
		}
	})
	item := wire.NewPart(json.RawMessage(`{"data":1}`))
	taken := wire.NewPrologue(wire.Prologue{})
	end := []wire.Frame{wire.NewFinal(), wire.NewSignal(wire.Sentinel)}
	data := func(text string) wire.Frame { return wire.Frame{Body: []byte(text)} }
	for _, test := range []struct {
		name   string
		frames []wire.Frame
		raw    string
		hold   bool
		items  string
		want   fault.Type
	}{
		{"whole", append([]wire.Frame{taken, item}, end...), "", true, "1", ""},
		{"empty frames", append([]wire.Frame{{}, taken, {}, item, {}}, end...), "", true, "1", ""},
		{"no sentinel", []wire.Frame{taken, item, wire.NewFinal()}, "", false, "1", ""},
		{"error item", append([]wire.Frame{taken, wire.NewPart(json.RawMessage(`{"event":"error","error":{"error_type":{"Backend":"InvalidArgument"},"message":"m"}}`))}, end...), "", true, "", fault.BackendInvalidArgument},
		{"error of another form", append([]wire.Frame{taken, wire.NewPart(json.RawMessage(`{"event":"error","comment":["m"]}`))}, end...), "", true, "", fault.Unknown},
		{"refused", []wire.Frame{{Header: []byte(`{"error":"no"}`)}}, "", false, "", fault.Unknown},
		{"data before prologue", []wire.Frame{item}, "", true, "", fault.Disconnected},
		{"prologue is not JSON", []wire.Frame{{Header: []byte("{")}}, "", true, "", fault.Disconnected},
		{"no prologue", nil, "", false, "", fault.Disconnected},
		{"no end", []wire.Frame{taken, item}, "", false, "1", fault.Disconnected},
		{"sentinel, no end", []wire.Frame{taken, item, wire.NewSignal(wire.Sentinel)}, "", true, "1", fault.Disconnected},
		{"control among items", []wire.Frame{taken, item, wire.NewSignal(wire.Stop)}, "", true, "1", fault.Disconnected},
		{"sentinel with a body", []wire.Frame{taken, item, {Header: []byte(`"sentinel"`), Body: []byte("1")}}, "", true, "1", fault.Unknown},
		{"item is not JSON", []wire.Frame{taken, item, data("x")}, "", true, "1", fault.Unknown},
		{"item is no item", []wire.Frame{taken, item, wire.NewPart(json.RawMessage(`5`))}, "", true, "1", fault.Unknown},
		{"item after the end", []wire.Frame{taken, item, wire.NewFinal(), item}, "", true, "1", fault.Disconnected},
		{"two ends", []wire.Frame{taken, item, wire.NewFinal(), wire.NewFinal()}, "", true, "1", fault.Disconnected},
		{"half a frame", []wire.Frame{taken, item}, string(item.Append(nil)[:30]), false, "1", fault.Disconnected},
		{"length", []wire.Frame{taken, item}, string(promise(0, 1<<40)), true, "1", fault.Disconnected},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := script{hold: test.hold}
			for _, f := range test.frames {
				now.say = f.Append(now.say)
			}
			now.say = append(now.say, test.raw...)
			scripts <- now
			c := client(t, join(t, config), "generate", 1)
			got, err := call(t, c, `{}`, drt.RoundRobin())
			if got != test.items || test.want == "" && err != nil || test.want != "" && !errors.Is(err, test.want) {
				t.Errorf("items %q, error %v; want %q, %q", got, err, test.items, test.want)
			}
			inhibited := len(c.Available()) == 0
			if want := test.want == fault.Disconnected; inhibited != want {
				t.Errorf("inhibited is %v, want %v", inhibited, want)
			}
		})
	}
}

// Foreign connections to the port for response streams do not affect other calls.
func TestStrangersCallHome(t *testing.T) {
	s, config := servers(t, stack.Options{})
	addresses := make(chan string, 1)
	conn := plain(t, s)
	rt := join(t, config)
	serve(t, rt, "generate", counter, drt.ServeOptions{})
	c := client(t, join(t, config), "generate", 1)
	if _, err := conn.Subscribe(c.Instances()[0].Transport.Subject, func(m *nats.Msg) {
		if f, err := wire.Decode(m.Data, 0); err == nil {
			if _, home, err := wire.ParseRequest(f); err == nil {
				select {
				case addresses <- home.Address + " " + home.Subject:
				default:
				}
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	rc := cancel.New("")
	next := open(t, c, rc)
	address, used, _ := strings.Cut(<-addresses, " ")
	random := rand.NewChaCha8([32]byte{1})
	noise := make([]byte, 1000)
	_, _ = random.Read(noise)
	for _, say := range [][]byte{
		nil, noise, promise(1<<63, 1<<63), wire.NewFinal().Append(nil), wire.NewHello("nobody's").Append(nil),
		wire.NewHello(used).Append(nil), wire.Frame{Header: []byte("{")}.Append(nil),
	} {
		stranger, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = stranger.Write(say)
		if len(say) == 0 {
			stranger.Close()
			continue
		}
		if n, _ := io.Copy(io.Discard, stranger); n != 0 {
			t.Errorf("%d bytes for a stranger, want none", n)
		}
		stranger.Close()
	}
	finish(t, rc, next)
}
