// Package exact reads as many bytes as a peer promises.
package exact

import (
	"bytes"
	"errors"
	"io"
)

// eager is up to which size memory is taken before the bytes are there.
const eager = 256 << 10

// ReadN reads n bytes, and returns the bytes that came before an error. A peer that promises many and sends few
// costs the memory of few.
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

// UnexpectedEOF returns err of a read in the middle of something: an end is not
// expected there.
func UnexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
