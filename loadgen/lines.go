package loadgen

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode"
	"unicode/utf8"
)

// ReadOptions says how to read a trace file.
type ReadOptions struct {
	// TraceBlock is the number of tokens of a hash id, > 0.
	TraceBlock int
	// Compat reads decimals as the reference does, off by one in the last place
	// now and then, instead of correctly rounded.
	Compat bool
	// Size is the number of bytes to come, for the memory to set aside; 0 when it
	// is not known.
	Size int64
	// MaxLine is the longest line accepted, in bytes; 0 means 64 MiB.
	MaxLine int
}

const (
	defaultMaxLine = 64 << 20
	readBuffer     = 256 << 10
)

func (o *ReadOptions) check() error {
	if o.TraceBlock <= 0 {
		return fmt.Errorf("trace block size is %d, want > 0", o.TraceBlock)
	}
	return nil
}

// lineReader cuts a file into lines.
type lineReader struct {
	name  string
	in    *bufio.Reader
	limit int
	size  int64  // bytes to come in all, 0 if not known
	taken int64  // of these, in lines so far
	line  int    // number of the line last returned, blank ones counted
	long  []byte // a line that does not fit the buffer
}

func newLineReader(r io.Reader, name string, o ReadOptions) *lineReader {
	l := &lineReader{name: name, limit: o.MaxLine, size: o.Size, in: bufio.NewReaderSize(r, readBuffer)}
	if l.limit <= 0 {
		l.limit = defaultMaxLine
	}
	return l
}

// next returns the next line that is not blank, without its end; io.EOF comes
// after the last. The line is valid until the call after.
func (l *lineReader) next() ([]byte, error) {
	for {
		line, err := l.read()
		if err != nil {
			return nil, err
		}
		if !utf8.Valid(line) {
			return nil, l.errorf("not valid UTF-8")
		}
		if !blank(line) {
			return line, nil
		}
	}
}

func (l *lineReader) read() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.readLong(line)
	}
	if len(line) == 0 && err != nil {
		if err == io.EOF {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("%s: %w", l.name, err)
	}
	l.line++
	l.taken += int64(len(line))
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s:%d: %w", l.name, l.line, err)
	}
	if l.line > math.MaxInt32 {
		return nil, l.errorf("more than %d lines", math.MaxInt32)
	}
	if n := len(line); line[n-1] == '\n' {
		line = bytes.TrimSuffix(line[:n-1], []byte{'\r'})
	}
	if len(line) > l.limit {
		return nil, l.errorf("the line is longer than %d bytes", l.limit)
	}
	return line, nil
}

// readLong collects a line of which start is all the buffer holds.
func (l *lineReader) readLong(start []byte) ([]byte, error) {
	l.long = append(l.long[:0], start...)
	for {
		part, err := l.in.ReadSlice('\n')
		l.long = append(l.long, part...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(l.long) > l.limit+2 {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = nil // too long: what was read is enough to say so
			}
			return l.long, err
		}
	}
}

// room is the number of records to make room for when n do not suffice: as many
// as there will be if they go on as they began, and twice n where the size of
// the file is not known. The first lines may be unlike the others, so that a few
// are trusted for 8 times as many only, and some hundreds for 256 times. Of the
// room nothing is touched that is not needed.
func (l *lineReader) room(n int) int {
	if n < 64 || l.size <= l.taken {
		return max(2*n, 64)
	}
	most := 8.0
	if n >= 512 {
		most = 256
	}
	factor := float64(l.size) / float64(l.taken) * 1.02
	return max(n+n/8, int(float64(n)*min(factor, most)))
}

func (l *lineReader) errorf(format string, args ...any) error {
	return &SyntaxError{Name: l.name, Line: l.line, Msg: fmt.Sprintf(format, args...)}
}

// blank says whether the line is white space only, in the sense of Unicode.
func blank(line []byte) bool {
	if len(line) > 0 && line[0] == '{' {
		return false
	}
	for len(line) > 0 {
		r, n := utf8.DecodeRune(line)
		if !unicode.IsSpace(r) {
			return false
		}
		line = line[n:]
	}
	return true
}
