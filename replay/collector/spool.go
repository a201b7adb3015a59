package collector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// spool is a list of words in a temporary file, which is removed when the process ends. The methods of a nil spool do
// nothing.
type spool struct {
	file *os.File
	name string // file name to remove; "": already removed
	buf  []byte
	n    int64 // number of words
	err  error // first error
}

// spoolBytes is the size of a read or write.
const spoolBytes = 1 << 16

// newSpool opens a spool in dir; "" is the system's directory of temporary files.
func newSpool(dir string) (*spool, error) {
	file, err := os.CreateTemp(dir, ".replay-values-*.tmp")
	if err != nil {
		return nil, fmt.Errorf("a temporary file for exact quantiles: %w", err)
	}
	s := &spool{file: file, name: file.Name(), buf: make([]byte, 0, spoolBytes)}
	if os.Remove(s.name) == nil { // an open file stays usable without a name, except on some systems
		s.name = ""
	}
	return s, nil
}

// add appends a word.
func (s *spool) add(word uint64) {
	if len(s.buf) == cap(s.buf) {
		s.flush()
	}
	s.buf = binary.LittleEndian.AppendUint64(s.buf, word)
	s.n++
}

// flush writes the buffered words. After an error flush writes nothing.
func (s *spool) flush() {
	if s.err == nil && len(s.buf) > 0 {
		if _, err := s.file.Write(s.buf); err != nil {
			s.err = fmt.Errorf("the temporary file of exact quantiles, after %d values: %w", s.n, err)
		}
	}
	s.buf = s.buf[:0]
}

// each calls visit with all words in order, in parts.
func (s *spool) each(visit func(words []int64)) {
	if s.flush(); s.err != nil {
		return
	}
	in, raw, words := io.NewSectionReader(s.file, 0, 8*s.n), make([]byte, spoolBytes), make([]int64, spoolBytes/8)
	for left := 8 * s.n; left > 0; {
		part := raw[:min(left, spoolBytes)]
		if _, err := io.ReadFull(in, part); err != nil {
			s.err = fmt.Errorf("the temporary file of exact quantiles: %w", err)
			return
		}
		left -= int64(len(part))
		for i := range len(part) / 8 {
			words[i] = int64(binary.LittleEndian.Uint64(part[8*i:]))
		}
		visit(words[:len(part)/8])
	}
}

// empty removes all words.
func (s *spool) empty() {
	if s != nil {
		s.n, s.buf = 0, s.buf[:0]
	}
}

func (s *spool) failed() error {
	if s == nil {
		return nil
	}
	return s.err
}

func (s *spool) close() error {
	if s == nil || s.file == nil {
		return nil
	}
	err := s.file.Close()
	if s.file = nil; s.name != "" {
		err = errors.Join(err, os.Remove(s.name))
	}
	return err
}
