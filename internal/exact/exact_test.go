package exact

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// ReadN returns all bytes, or io.ErrUnexpectedEOF if the input is too short.
func TestReadN(t *testing.T) {
	for _, n := range []int{0, 1, eager, eager + 1, 3 * eager} {
		all := bytes.Repeat([]byte("x"), n)
		got, err := ReadN(bytes.NewReader(all), n)
		if err != nil || !bytes.Equal(got, all) {
			t.Errorf("%d bytes: %d, %v", n, len(got), err)
		}
		if n == 0 {
			continue
		}
		got, err = ReadN(bytes.NewReader(all[1:]), n)
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) != n-1 {
			t.Errorf("%d of %d bytes: %d, %v", n-1, n, len(got), err)
		}
	}
}
