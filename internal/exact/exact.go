// Package exact reads an exact number of bytes.
package exact

import (
	"bytes"
	"errors"
	"io"
)

// eager is the largest size in bytes for which ReadN allocates the full buffer before it reads.
const eager = 256 << 10

// ReadN reads n bytes. After an error ReadN returns the bytes read so far. eager and the number of received bytes
// limit the memory of ReadN, so that a peer cannot make it allocate a large buffer.
func ReadN(r io.Reader, n int) ([]byte, error) {
	if n <= eager {
		b := make([]byte, n)
		got, err := io.ReadFull(r, b)
		return b[:got], UnexpectedEOF(err)
	}
	var grown bytes.Buffer
	grown.Grow(eager)
	_, err := io.CopyN(&grown, r, int64(n))
	return grown.Bytes(), UnexpectedEOF(err)
}

// UnexpectedEOF returns io.ErrUnexpectedEOF for io.EOF, and all other errors unchanged.
func UnexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
