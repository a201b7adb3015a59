package wire_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/wire"
)

// home returns the address to which the worker sends the answer of the golden request.
func home() wire.CallHome {
	return wire.CallHome{Address: "127.0.0.1:9", Subject: "s", Context: "c"}
}

func request(t testing.TB) wire.Frame {
	t.Helper()
	f, err := wire.NewRequest(home(), 7, []byte(`{"token_ids":[1]}`))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Every frame has the expected bytes, and decoding returns the same frame.
func TestGolden(t *testing.T) {
	text := "no"
	for _, test := range []struct {
		name   string
		frame  wire.Frame
		header string
		body   string
		sum    string // XXH3-64 of header and body, big-endian
	}{
		{
			"request", request(t),
			`{"id":"c","request_type":"single_in","response_type":"many_out","connection_info":{"transport":"tcp_server","info":"{\"address\":\"127.0.0.1:9\",\"subject\":\"s\",\"context\":\"c\",\"stream_type\":\"response\"}"},"frontend_send_ts_ns":7}`,
			`{"token_ids":[1]}`, "48c3a5843548f918",
		},
		{"hello", wire.NewHello("s"), `{"subject":"s","stream_type":"response"}`, "", "5f45d6e6524a9f49"},
		{"prologue", wire.NewPrologue(wire.Prologue{}), `{"error":null}`, "", "f0e61489b502a52a"},
		{"refusal", wire.NewPrologue(wire.Prologue{Error: &text}), `{"error":"no"}`, "", "054ae2ce39c89a33"},
		{"item", wire.NewPart(json.RawMessage(`{"data":{"token_ids":[5]}}`)), "", `{"data":{"data":{"token_ids":[5]}},"complete_final":false}`, "b9eb3f3d76f8a659"},
		{"final", wire.NewFinal(), "", `{"complete_final":true}`, "e243abb5e27e64ef"},
		{"sentinel", wire.NewSignal(wire.Sentinel), `"sentinel"`, "", "3993296f71e74889"},
		{"stop", wire.NewSignal(wire.Stop), `"stop"`, "", "731977e5b1d5daae"},
		{"kill", wire.NewSignal(wire.Kill), `"kill"`, "", "6d97081d9a24ad23"},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := binary.BigEndian.AppendUint64(nil, uint64(len(test.header)))
			want = binary.BigEndian.AppendUint64(want, uint64(len(test.body)))
			sum, err := hex.DecodeString(test.sum)
			if err != nil {
				t.Fatalf("checksum %x", test.frame.Append(nil)[16:24])
			}
			want = append(append(append(want, sum...), test.header...), test.body...)
			got := test.frame.Append(nil)
			if !bytes.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			back, err := wire.Decode(got, 0)
			if err != nil || !bytes.Equal(back.Header, test.frame.Header) || !bytes.Equal(back.Body, test.frame.Body) {
				t.Errorf("read back %q, %v", back, err)
			}
			// Peers may send no checksum.
			clear(got[16:24])
			if _, err := wire.Decode(got, 0); err != nil {
				t.Errorf("without a checksum: %v", err)
			}
		})
	}
}

// Invalid frames are rejected with the reason.
func TestBadFrames(t *testing.T) {
	good := request(t).Append(nil)
	changed := bytes.Clone(good)
	changed[len(changed)-1] ^= 1
	sizes := func(header, body uint64) []byte {
		b := binary.BigEndian.AppendUint64(nil, header)
		b = binary.BigEndian.AppendUint64(b, body)
		return append(b, make([]byte, 8)...)
	}
	for _, test := range []struct {
		name, reason string
		bytes        []byte
		limit        int
	}{
		{"no bytes", "truncated", nil, 0},
		{"half a prelude", "truncated", good[:12], 0},
		{"half a body", "truncated", good[:len(good)-3], 0},
		{"more than a frame", "trailing bytes", append(bytes.Clone(good), 0), 0},
		{"checksum", "checksum", changed, 0},
		{"limit", "too long", good, len(good) - 1},
		{"length", "too long", sizes(1<<40, 0), 0},
		{"overflow", "too long", sizes(math.MaxUint64, 2), 0},
		{"overflow of the sum", "too long", sizes(math.MaxUint64-24, 1), math.MaxInt},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := wire.Decode(test.bytes, test.limit)
			var bad *wire.Error
			if !errors.As(err, &bad) || bad.Reason != test.reason {
				t.Errorf("error %v, want %q", err, test.reason)
			}
		})
	}
	if _, err := wire.Decode(good, len(good)); err != nil {
		t.Errorf("a frame of exactly the limit: %v", err)
	}
}

// Reader returns frames in order. The error for a connection that ends between frames differs from the error within a
// frame.
func TestReader(t *testing.T) {
	var all []byte
	big := wire.Frame{Body: bytes.Repeat([]byte("x"), 300<<10)}
	for _, f := range []wire.Frame{wire.NewHello("s"), {}, big, wire.NewFinal()} {
		all = f.Append(all)
	}
	r := wire.NewReader(bytes.NewReader(all), 0)
	for _, want := range []wire.Kind{wire.Control, wire.Empty, wire.Data, wire.Data} {
		f, err := r.Read()
		if err != nil || f.Kind() != want {
			t.Fatalf("%v, %v: want %v", f.Kind(), err, want)
		}
	}
	if _, err := r.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v, want EOF", err)
	}
	for cut := 1; cut < len(all); cut += 997 {
		r := wire.NewReader(bytes.NewReader(all[:cut]), 0)
		var err error
		for err == nil {
			_, err = r.Read()
		}
		var bad *wire.Error
		if between := cut == len(wire.NewHello("s").Append(nil)); !between && (!errors.As(err, &bad) || bad.Reason != "truncated") {
			t.Errorf("cut at %d: %v, want truncated", cut, err)
		}
	}
}

// A frame with a large declared size and few bytes uses little memory.
func TestPromisesCostNothing(t *testing.T) {
	b := binary.BigEndian.AppendUint64(nil, 0)
	b = binary.BigEndian.AppendUint64(b, 30<<20)
	b = append(b, make([]byte, 8+100)...)
	const reads = 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range reads {
		if _, err := wire.NewReader(bytes.NewReader(b), 0).Read(); err == nil {
			t.Fatal("read a frame that is not there")
		}
	}
	runtime.ReadMemStats(&after)
	size := (after.TotalAlloc - before.TotalAlloc) / reads
	if size > 1<<20 {
		t.Errorf("%d bytes for a frame of which 100 came, want less than 1 MiB", size)
	}
}

// Invalid messages are rejected with the reason.
func TestBadMessages(t *testing.T) {
	control := func(text string) wire.Frame { return wire.Frame{Header: []byte(text)} }
	data := func(text string) wire.Frame { return wire.Frame{Body: []byte(text)} }
	hello := func(f wire.Frame) error { _, err := wire.ParseHello(f); return err }
	prologue := func(f wire.Frame) error { _, err := wire.ParsePrologue(f); return err }
	part := func(f wire.Frame) error { _, err := wire.ParsePart(f); return err }
	signal := func(f wire.Frame) error { _, err := wire.ParseSignal(f); return err }
	asked := func(f wire.Frame) error { _, _, err := wire.ParseRequest(f); return err }
	with := func(from, to string) wire.Frame {
		f := request(t)
		return wire.Frame{Header: []byte(strings.Replace(string(f.Header), from, to, 1)), Body: f.Body}
	}
	for _, test := range []struct {
		parse func(wire.Frame) error
		frame wire.Frame
		want  string
	}{
		{hello, data("{}"), "a data frame, must be a header alone"},
		{hello, control("{"), "unexpected end"},
		{hello, control(`{"subject":"","stream_type":"response"}`), "subject"},
		{hello, control(`{"subject":"s","stream_type":"request"}`), `"request"`},
		{prologue, data(`{"error":null}`), "must be a header alone"},
		{part, data("x"), "invalid character"},
		{part, data("{}"), "neither an item nor complete_final"},
		{part, control("{}"), "must be a body alone"},
		{signal, control(`"pause"`), `"pause"`},
		{signal, control("7"), "cannot unmarshal"},
		{signal, wire.Frame{Header: []byte(`"stop"`), Body: []byte("1")}, "a request frame"},
		{asked, control("{}"), "expected header and body"},
		{asked, with("tcp_server", "udp"), `"udp"`},
		{asked, with(`"id":"c"`, `"id":"d"`), `must be the id "d"`},
		{asked, with(`\"stream_type\":\"response\"`, `\"stream_type\":\"x\"`), "stream_type"},
		{asked, with(`\"address\":\"127.0.0.1:9\"`, `\"address\":\"\"`), "address"},
		{asked, with(`"info":"{`, `"info":"`), "connection_info.info"},
	} {
		if err := test.parse(test.frame); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q %q: %v, want %q", test.frame.Header, test.frame.Body, err, test.want)
		}
	}
	if h, got, err := wire.ParseRequest(request(t)); err != nil || h.ID != "c" || got.Subject != "s" || *h.SentNS != 7 {
		t.Errorf("%+v, %+v, %v", h, got, err)
	}
}

// Decode does not panic for any bytes. A valid frame is encoded to the same bytes.
func FuzzFrame(f *testing.F) {
	f.Add(request(f).Append(nil))
	f.Add(wire.NewHello("s").Append(wire.NewFinal().Append(nil)))
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 16
		if one, err := wire.Decode(b, limit); err == nil {
			if one.Size() > limit || one.Size() != len(b) {
				t.Fatalf("a frame of %d bytes out of %d, limit %d", one.Size(), len(b), limit)
			}
			again, err := wire.Decode(one.Append(nil), limit)
			if err != nil || !bytes.Equal(again.Header, one.Header) || !bytes.Equal(again.Body, one.Body) {
				t.Fatalf("%q became %q: %v", one, again, err)
			}
			_, _, _ = wire.ParseRequest(one)
		}
		r := wire.NewReader(bytes.NewReader(b), limit)
		for read := 0; ; {
			one, err := r.Read()
			if err != nil {
				break
			}
			read += one.Size()
			if one.Size() > limit || read > len(b) {
				t.Fatalf("%d bytes read out of %d, a frame of %d, limit %d", read, len(b), one.Size(), limit)
			}
			_, _ = wire.ParseHello(one)
			_, _ = wire.ParsePrologue(one)
			_, _ = wire.ParsePart(one)
			_, _ = wire.ParseSignal(one)
		}
	})
}
