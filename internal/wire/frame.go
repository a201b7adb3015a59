// Package wire is the bytes of requests and response streams between callers and
// workers: the two-part frame, and the JSON that goes into its parts.
//
// It opens no connection and is independent of the runtime. Read frame.go (the frame), reader.go (frames from a
// connection), then message.go (their content).
package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/replay-llm/replay/sim/blockhash"
)

// PreludeSize is the size of the lengths and the checksum before header and body, in bytes, 8 each, big-endian.
const PreludeSize = 24

// DefaultLimit is the largest frame that is taken when nothing else is said, in
// bytes.
const DefaultLimit = 32 << 20

// Frame is one two-part message.
type Frame struct {
	Header []byte // control, as JSON
	Body   []byte // data, as JSON
}

// Kind is the kind of a frame, which follows from its parts.
type Kind int

// The kinds of frames.
const (
	Empty   Kind = iota // neither part; ignored by its reader
	Control             // a header alone
	Data                // a body alone
	Request             // both
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

// Size returns how long f is on the wire, in bytes.
func (f Frame) Size() int { return PreludeSize + len(f.Header) + len(f.Body) }

// Append writes f, with its checksum, behind dst.
func (f Frame) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(f.Header)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(f.Body)))
	dst = binary.BigEndian.AppendUint64(dst, blockhash.Checksum(f.Header, f.Body))
	dst = append(dst, f.Header...)
	return append(dst, f.Body...)
}

// Error is why bytes are no frame.
type Error struct {
	// Reason is "truncated", "too long", "checksum" or "trailing bytes".
	Reason string
	Detail string
}

func (e *Error) Error() string { return "frame: " + e.Reason + ": " + e.Detail }

// Decode reads the one frame that b is, whole. limit is the most bytes it may
// have; 0: DefaultLimit. The frame shares b's memory. Errors are *Error.
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

// prelude is the first bytes of a frame, checked against a limit.
type prelude struct {
	header, body int
	checksum     uint64 // 0: none
}

func parsePrelude(b []byte, limit int) (prelude, error) {
	if limit == 0 {
		limit = DefaultLimit
	}
	header, body := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	// Each is compared alone first: their sum may overflow.
	most := uint64(max(limit-PreludeSize, 0))
	if header > most || body > most || header+body > most {
		return prelude{}, &Error{"too long", fmt.Sprintf("header of %d bytes and body of %d, must be at most %d with %d before them", header, body, limit, PreludeSize)}
	}
	return prelude{int(header), int(body), binary.BigEndian.Uint64(b[16:])}, nil
}

// splitFrame splits rest, which has exactly the bytes p promises.
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
