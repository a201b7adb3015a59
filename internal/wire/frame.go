// Package wire encodes requests and response streams between callers and workers: the two-part frame, and the JSON in
// its parts.
//
// The package opens no connection and does not depend on the runtime. Read frame.go (the frame), reader.go (frames of
// a connection), then message.go (contents).
package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/replay-llm/replay/sim/blockhash"
)

// PreludeSize is the size in bytes of the start of a frame. The start has the lengths of header and body and the
// checksum, each with 8 bytes, big-endian.
const PreludeSize = 24

// DefaultLimit is the default maximum size of a frame, in bytes.
const DefaultLimit = 32 << 20

// Frame is a message with two parts.
type Frame struct {
	Header []byte // control data as JSON
	Body   []byte // payload as JSON
}

// Kind is the kind of a frame. The kind depends on the parts of the frame.
type Kind int

// Kinds of frames.
const (
	Empty   Kind = iota // no parts; readers ignore it
	Control             // only a header
	Data                // only a body
	Request             // header and body
)

func (k Kind) String() string {
	return [...]string{"an empty frame", "a control frame", "a data frame", "a request frame"}[k]
}

// Kind returns the kind of f.
func (f Frame) Kind() Kind {
	switch {
	case len(f.Header) > 0 && len(f.Body) > 0:
		return Request
	case len(f.Header) > 0:
		return Control
	case len(f.Body) > 0:
		return Data
	}
	return Empty
}

// Size returns the encoded size of f, in bytes.
func (f Frame) Size() int { return PreludeSize + len(f.Header) + len(f.Body) }

// Append appends the encoded frame, including its checksum, to dst.
func (f Frame) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(f.Header)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(f.Body)))
	dst = binary.BigEndian.AppendUint64(dst, blockhash.Checksum(f.Header, f.Body))
	dst = append(dst, f.Header...)
	return append(dst, f.Body...)
}

// Error is the reason for which bytes are not a valid frame.
type Error struct {
	// Reason is "truncated", "too long", "checksum" or "trailing bytes".
	Reason string
	Detail string
}

func (e *Error) Error() string { return "frame: " + e.Reason + ": " + e.Detail }

// Decode decodes the single frame in b. limit is the maximum size in bytes, and 0 means DefaultLimit. The frame
// shares the memory of b. Errors have type *Error.
func Decode(b []byte, limit int) (Frame, error) {
	if len(b) < PreludeSize {
		return Frame{}, &Error{"truncated", fmt.Sprintf("%d bytes, must be at least %d", len(b), PreludeSize)}
	}
	p, err := parsePrelude(b, limit)
	if err != nil {
		return Frame{}, err
	}
	switch rest := b[PreludeSize:]; {
	case len(rest) < p.header+p.body:
		return Frame{}, &Error{"truncated", fmt.Sprintf("%d bytes, must be %d", len(b), PreludeSize+p.header+p.body)}
	case len(rest) > p.header+p.body:
		return Frame{}, &Error{"trailing bytes", fmt.Sprintf("%d bytes, must be %d", len(b), PreludeSize+p.header+p.body)}
	default:
		return p.splitFrame(rest)
	}
}

// prelude is the decoded start of a frame. The sizes of header and body are within the limit.
type prelude struct {
	header, body int
	checksum     uint64 // 0: no checksum
}

func parsePrelude(b []byte, limit int) (prelude, error) {
	if limit == 0 {
		limit = DefaultLimit
	}
	header, body := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	// The single comparisons are required because the sum may overflow.
	most := uint64(max(limit-PreludeSize, 0))
	if header > most || body > most || header+body > most {
		return prelude{}, &Error{"too long", fmt.Sprintf("header of %d bytes and body of %d, must be at most %d with %d before them", header, body, limit, PreludeSize)}
	}
	return prelude{int(header), int(body), binary.BigEndian.Uint64(b[16:])}, nil
}

// splitFrame splits rest into header and body, and checks the checksum.
func (p prelude) splitFrame(rest []byte) (Frame, error) {
	f := Frame{Header: rest[:p.header:p.header], Body: rest[p.header:]}
	if p.checksum == 0 {
		return f, nil
	}
	if sum := blockhash.Checksum(f.Header, f.Body); sum != p.checksum {
		return Frame{}, &Error{"checksum", fmt.Sprintf("%016x, expected %016x", sum, p.checksum)}
	}
	return f, nil
}
