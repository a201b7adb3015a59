package formats

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
)

const (
	maxLine     = 64 << 20 // bytes
	maxDocument = 1 << 30  // bytes of a file that is one JSON value
	readBuffer  = 256 << 10
)

// lines cuts a file into lines.
type lines struct {
	name string
	in   *bufio.Reader
	line int    // number of the line last returned, blank ones counted
	at   int64  // offset of the next byte
	size int64  // bytes of the file, 0 if not known
	long []byte // a line that does not fit the buffer
	// plain leaves NUL bytes to the scanner, which refuses them anywhere.
	plain bool
}

func newLines(r io.Reader, name string) *lines {
	return &lines{name: name, in: bufio.NewReaderSize(r, readBuffer)}
}

// fatalError is one after which reading cannot go on.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// next returns the next line that is not blank, without its end; io.EOF comes
// after the last. The line is valid until the call after.
func (l *lines) next() ([]byte, error) {
	for {
		from := l.at
		line, err := l.readLine()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 || len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if l.plain {
			if !utf8.Valid(line) {
				return nil, l.errorf("not valid UTF-8")
			}
			return line, nil
		}
		if bad := notText(line); bad >= 0 {
			return nil, l.errorf("byte offset %d is not UTF-8 text, want UTF-8 without NUL", from+int64(bad))
		}
		return line, nil
	}
}

// notText is the place of the first byte that no text has, or -1.
func notText(line []byte) int {
	nul := bytes.IndexByte(line, 0)
	if utf8.Valid(line) {
		return nul
	}
	for i := 0; i < len(line); {
		r, n := utf8.DecodeRune(line[i:])
		if r == utf8.RuneError && n == 1 || i == nul {
			return i
		}
		i += n
	}
	return nul
}

func (l *lines) readLine() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.readLong(line)
	}
	if len(line) == 0 && err == io.EOF {
		return nil, io.EOF
	}
	if l.line++; l.line > math.MaxInt32 {
		return nil, &fatalError{l.errorf("more than %d lines", math.MaxInt32)}
	}
	l.at += int64(len(line))
	if err != nil && err != io.EOF {
		return nil, &fatalError{fmt.Errorf("%s:%d: %w", l.name, l.line, err)}
	}
	if n := len(line); line[n-1] == '\n' {
		line = bytes.TrimSuffix(line[:n-1], []byte{'\r'})
	}
	if len(line) > maxLine {
		return nil, &fatalError{l.errorf("the line is longer than %d bytes", maxLine)}
	}
	return line, nil
}

// readLong collects a line of which start is all the buffer holds.
func (l *lines) readLong(start []byte) ([]byte, error) {
	l.long = append(l.long[:0], start...)
	for {
		part, err := l.in.ReadSlice('\n')
		l.long = append(l.long, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l.long, err
		}
		if len(l.long) > maxLine+2 {
			return l.long, nil // enough to say that it is too long
		}
	}
}

// readRest is the whole file from here on.
func (l *lines) readRest() ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(l.in, maxDocument+1))
	switch {
	case err != nil:
		return nil, &fatalError{fmt.Errorf("%s: %w", l.name, err)}
	case len(text) > maxDocument:
		return nil, &fatalError{fmt.Errorf("%s: one JSON value of more than %d bytes, want at most that", l.name, maxDocument)}
	}
	if bad := notText(text); bad >= 0 {
		return nil, l.errorAt(text, bad, "byte offset %d is not UTF-8 text, want UTF-8 without NUL", bad)
	}
	return text, nil
}

func (l *lines) errorf(format string, args ...any) error {
	return &loadgen.SyntaxError{Name: l.name, Line: l.line, Msg: excerpt.Sprintf(format, args...)}
}

// errorAt complains about a byte of the whole file.
func (l *lines) errorAt(text []byte, at int, format string, args ...any) error {
	return &loadgen.SyntaxError{Name: l.name, Line: lineOf(text, at), Msg: excerpt.Sprintf(format, args...)}
}

// lineOf is the line of the byte at an offset of text, from 1.
func lineOf(text []byte, at int) int { return 1 + bytes.Count(text[:min(at, len(text))], []byte{'\n'}) }

// roomFor is the number of records to make room for when n do not suffice: as many
// as there will be if they go on as they began, and twice n where the size of
// the file is not known. The first lines may be unlike the others, so that a few
// are trusted for 8 times as many only, and some hundreds for 256 times. Of the
// room nothing is touched that is not needed.
func (l *lines) roomFor(n int) int {
	if n < 64 || l.size <= l.at {
		return max(2*n, 64)
	}
	most := 8.0
	if n >= 512 {
		most = 256
	}
	factor := float64(l.size) / float64(l.at) * 1.02
	return max(n+n/8, int(float64(n)*min(factor, most)))
}
