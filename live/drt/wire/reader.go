package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Reader reads frames from a connection. It is for one goroutine.
type Reader struct {
	from  *bufio.Reader
	limit int
}

// NewReader reads from r frames of at most limit bytes; 0: DefaultLimit.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{bufio.NewReader(r), limit}
}

// eager is up to which size memory is taken before the bytes are there.
const eager = 64 << 10

// Read returns the next frame, which is the caller's to keep. The error is io.EOF
// when the connection ends between frames, *Error when what comes is no frame
// (also when it ends inside one), and that of the connection otherwise.
func (r *Reader) Read() (Frame, error) {
	var first [PreludeSize]byte
	if n, err := io.ReadFull(r.from, first[:]); err != nil {
		return Frame{}, truncatedError(err, n, PreludeSize)
	}
	p, err := parsePrelude(first[:], r.limit)
	if err != nil {
		return Frame{}, err
	}
	rest, err := r.readBytes(p.header + p.body)
	if err != nil {
		return Frame{}, truncatedError(err, PreludeSize+len(rest), PreludeSize+p.header+p.body)
	}
	return p.splitFrame(rest)
}

// readBytes reads size bytes. A peer that promises many and sends few costs the
// memory of few.
func (r *Reader) readBytes(size int) ([]byte, error) {
	if size <= eager {
		b := make([]byte, size)
		n, err := io.ReadFull(r.from, b)
		if n > 0 {
			err = unexpectedEOF(err)
		}
		return b[:n], err
	}
	var grown bytes.Buffer
	grown.Grow(eager)
	_, err := io.CopyN(&grown, r.from, int64(size))
	return grown.Bytes(), unexpectedEOF(err)
}

// unexpectedEOF makes an end of the connection one in the middle of a frame.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// truncatedError returns err, as an *Error when the connection ended after some of the
// bytes of a frame.
func truncatedError(err error, got, want int) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || got >= PreludeSize && errors.Is(err, io.EOF) {
		return &Error{"truncated", fmt.Sprintf("the connection ended after %d bytes, want %d", got, want)}
	}
	return err
}
