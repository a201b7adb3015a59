package wire

import (
	"bytes"
	"fmt"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
)

// RequestHeader is the header of a request frame.
type RequestHeader struct {
	ID           string         `json:"id"` // UUID of the request context
	RequestType  string         `json:"request_type"`
	ResponseType string         `json:"response_type"`
	Connection   ConnectionInfo `json:"connection_info"`
	SentNS       *uint64        `json:"frontend_send_ts_ns,omitempty"` // Unix time in ns
}

// ConnectionInfo describes how a worker connects to the caller. Info is a CallHome as a JSON string.
type ConnectionInfo struct {
	Transport string `json:"transport"`
	Info      string `json:"info"`
}

// CallHome is the destination to which a worker sends the response stream.
type CallHome struct {
	Address    string `json:"address"` // host:port
	Subject    string `json:"subject"` // UUID for one use
	Context    string `json:"context"` // id of the request
	StreamType string `json:"stream_type"`
}

// Names in headers of requests.
const (
	singleIn    = "single_in"
	manyOut     = "many_out"
	tcpServer   = "tcp_server"
	responseFor = "response"
)

// NewRequest returns the frame of a request. The worker sends the response to home.
func NewRequest(home CallHome, sentNS uint64, payload []byte) (Frame, error) {
	home.StreamType = responseFor
	info, err := json.Marshal(home)
	if err != nil {
		return Frame{}, err
	}
	h := RequestHeader{
		ID: home.Context, RequestType: singleIn, ResponseType: manyOut,
		Connection: ConnectionInfo{tcpServer, string(info)},
	}
	if sentNS != 0 {
		h.SentNS = &sentNS
	}
	header, err := json.Marshal(h)
	return Frame{header, payload}, err
}

// ParseRequest parses the frame of a request. ParseRequest rejects a header that is not JSON, an unsupported
// transport, and a context that differs from the id of the request.
func ParseRequest(f Frame) (RequestHeader, CallHome, error) {
	var h RequestHeader
	var home CallHome
	if f.Kind() != Request {
		return h, home, fmt.Errorf("%v, expected header and body", f.Kind())
	}
	if err := json.Unmarshal(f.Header, &h); err != nil {
		return h, home, fmt.Errorf("header: %w", err)
	}
	if h.Connection.Transport != tcpServer {
		return h, home, excerpt.Errorf("connection_info.transport is %q, must be %q", h.Connection.Transport, tcpServer)
	}
	if err := json.Unmarshal([]byte(h.Connection.Info), &home); err != nil {
		return h, home, fmt.Errorf("connection_info.info: %w", err)
	}
	switch {
	case h.ID == "" || home.Context != h.ID:
		return h, home, excerpt.Errorf("context is %q, must be the id %q", home.Context, h.ID)
	case home.StreamType != responseFor:
		return h, home, excerpt.Errorf("stream_type is %q, must be %q", home.StreamType, responseFor)
	case home.Address == "" || home.Subject == "":
		return h, home, excerpt.Errorf("address is %q and subject %q, must be both", home.Address, home.Subject)
	}
	return h, home, nil
}

// Hello is the first control frame of a worker on a new connection to the caller.
type Hello struct {
	Subject    string `json:"subject"`
	StreamType string `json:"stream_type"`
}

// NewHello returns the frame of a Hello with the given subject.
func NewHello(subject string) Frame { return controlFrame(Hello{subject, responseFor}) }

// ParseHello parses the first frame of a connection.
func ParseHello(f Frame) (Hello, error) {
	h, err := parseControl[Hello](f)
	if err != nil {
		return h, err
	}
	if h.Subject == "" || h.StreamType != responseFor {
		return h, excerpt.Errorf("hello: subject is %q and stream_type %q, must be one and %q", h.Subject, h.StreamType, responseFor)
	}
	return h, nil
}

// Prologue is the second control frame of a worker. The prologue contains whether the worker accepts the request.
type Prologue struct {
	Error *string `json:"error"`
	// Fault is the typed reason of a rejection, for programs that support it. The worker sends the same reason as the
	// first item, because other implementations mark a worker as broken if its prologue has an error.
	Fault json.RawMessage `json:"fault,omitempty"`
	// Beats reports that the worker sends empty frames while it has no items, at the interval that the caller
	// requested.
	Beats bool `json:"beats,omitempty"`
}

// NewPrologue returns the frame of p.
func NewPrologue(p Prologue) Frame { return controlFrame(p) }

// ParsePrologue parses the second frame of a connection.
func ParsePrologue(f Frame) (Prologue, error) { return parseControl[Prologue](f) }

// Part is the body of a data frame: an item of the stream, or the mark of its end.
type Part struct {
	Data  json.RawMessage `json:"data,omitempty"`
	Final bool            `json:"complete_final"`
}

// partHead and partTail enclose an item in its frame.
const partHead, partTail = `{"data":`, `,"complete_final":false}`

// AppendPart appends the body of a data frame with the item to dst.
func AppendPart(dst []byte, item json.RawMessage) []byte {
	return append(append(append(dst, partHead...), item...), partTail...)
}

// NewPart returns the frame of an item.
func NewPart(item json.RawMessage) Frame {
	return Frame{Body: AppendPart(make([]byte, 0, len(partHead)+len(item)+len(partTail)), item)}
}

// Member returns the JSON object between head and tail. Member reports false if b has another form. Member does not
// validate the object. With Member, messages that this program or a similar program wrote need no parsing.
func Member(b []byte, head, tail string) (object []byte, ok bool) {
	n := len(b) - len(tail)
	if n <= len(head)+1 || string(b[:len(head)]) != head || string(b[n:]) != tail || b[len(head)] != '{' {
		return nil, false
	}
	object = b[len(head):n]
	depth, quoted := 0, false
	for i := 0; i < len(object); i++ {
		switch c := object[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			if depth--; depth == 0 {
				return object, i == len(object)-1
			}
		}
	}
	return nil, false
}

// NewFinal returns the frame that marks the end of a stream.
func NewFinal() Frame { return Frame{Body: []byte(`{"complete_final":true}`)} }

// ParsePart parses a data frame.
func ParsePart(f Frame) (Part, error) {
	var p Part
	if f.Kind() != Data {
		return p, fmt.Errorf("%v, must be a body alone", f.Kind())
	}
	if data, ok := Member(f.Body, partHead, partTail); ok {
		return Part{Data: data}, nil
	}
	if err := json.Unmarshal(f.Body, &p); err != nil {
		return p, fmt.Errorf("data: %w", err)
	}
	if !p.Final && len(p.Data) == 0 {
		return p, fmt.Errorf("data: neither an item nor complete_final in %.60q", f.Body)
	}
	return p, nil
}

// Signal is a control frame with one word.
type Signal string

// Signals of callers and workers.
const (
	Stop     Signal = "stop"     // from the caller: finish early
	Kill     Signal = "kill"     // from the caller: end immediately
	Sentinel Signal = "sentinel" // from the worker: end of the stream
)

// NewSignal returns the frame of s.
func NewSignal(s Signal) Frame { return controlFrame(s) }

// ParseSignal parses a control frame with one word.
func ParseSignal(f Frame) (Signal, error) {
	s, err := parseControl[Signal](f)
	if err == nil && s != Stop && s != Kill && s != Sentinel {
		err = excerpt.Errorf("control %q, must be %q, %q or %q", string(s), Stop, Kill, Sentinel)
	}
	return s, err
}

// controlFrame returns a frame with v as JSON in its header. Encoding v must not fail.
func controlFrame(v any) Frame {
	header, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("control %+v: %v", v, err))
	}
	return Frame{Header: header}
}

func parseControl[T any](f Frame) (v T, err error) {
	if f.Kind() != Control {
		return v, fmt.Errorf("%v, must be a header alone", f.Kind())
	}
	if err := json.Unmarshal(bytes.TrimSpace(f.Header), &v); err != nil {
		return v, fmt.Errorf("control: %w", err)
	}
	return v, nil
}
