package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/replay-llm/replay/internal/exact"
)

// Reader reads frames from a connection. Reader is not safe for concurrent use.
type Reader struct {
	from  *bufio.Reader
	limit int
}

// NewReader returns a Reader of r. limit is the maximum size of a frame in bytes, and 0 means DefaultLimit.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{bufio.NewReader(r), limit}
}

// Read returns the next frame in new memory. The error is io.EOF if the connection ends between frames, *Error for
// invalid or incomplete frames, and otherwise the error of the connection.
func (r *Reader) Read() (Frame, error) {
	first, err := r.from.Peek(PreludeSize)
	if err != nil {
		return Frame{}, truncatedError(err, len(first), PreludeSize)
	}
	p, err := parsePrelude(first, r.limit)
	if err != nil {
		return Frame{}, err
	}
	_, _ = r.from.Discard(PreludeSize) // Peek has already returned these bytes
	rest, err := exact.ReadN(r.from, p.header+p.body)
	if err != nil {
		return Frame{}, truncatedError(err, PreludeSize+len(rest), PreludeSize+p.header+p.body)
	}
	return p.splitFrame(rest)
}

// IsReady reports whether Read would return an error or a frame with content without waiting for the connection.
func (r *Reader) IsReady() bool {
	have := r.from.Buffered()
	if have < PreludeSize {
		return false
	}
	first, err := r.from.Peek(PreludeSize)
	if err != nil {
		return false
	}
	p, err := parsePrelude(first, r.limit)
	return err != nil || p.header+p.body > 0 && have >= PreludeSize+p.header+p.body
}

// Rest returns a reader of the bytes after the frames that were read.
func (r *Reader) Rest() io.Reader { return r.from }

// truncatedError returns an *Error if the connection ended within a frame, and otherwise err.
func truncatedError(err error, got, want int) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || got > 0 && errors.Is(err, io.EOF) {
		return &Error{"truncated", fmt.Sprintf("the connection ended after %d bytes, must be %d", got, want)}
	}
	return err
}
