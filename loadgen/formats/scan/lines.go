// Package scan parses the text of traces: lines, JSON values, numbers and times.
//
// The JSON scanner is shared by all formats. For a Mooncake row it needs a tenth of the time of encoding/json and
// slightly less than goccy/go-json (loadgen/formats/mooncake.BenchmarkRow). Neither library rejects a key that occurs
// twice, or reports the position of a wrong value in a list (loadgen/formats/registry.TestWhyAScanner). Package
// internal/json reads and writes all other JSON.
//
// Read input.go (plain and compressed files), lines.go, scan.go (with values.go and number.go), json.go, fields.go
// and stamp.go.
package scan

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
	MaxLine     = 64 << 20 // bytes
	maxDocument = 1 << 30  // maximum bytes of a file that is a single JSON value
	readBuffer  = 256 << 10
)

// Lines divides a file into lines.
type Lines struct {
	name string
	in   *bufio.Reader
	Line int    // number of the latest returned line; blank lines count
	at   int64  // offset of the next byte
	size int64  // file size in bytes, 0 if unknown
	long []byte // a line that is longer than the buffer
	// Plain skips the check for NUL bytes, because the scanner rejects them.
	Plain bool
}

// NewLines returns the lines of r. size is its number of bytes, or 0 if unknown. Messages contain name.
func NewLines(r io.Reader, name string, size int64) *Lines {
	return &Lines{name: name, in: bufio.NewReaderSize(r, readBuffer), size: size}
}

// window is the number of bytes that are available for the detection of the format.
const window = 64 << 10

// Peek returns the bytes in the window without reading them. After the end of the file Peek returns io.EOF.
func (l *Lines) Peek() ([]byte, error) { return l.in.Peek(window) }

// fatalError is an error after which reading cannot continue.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// Fatal marks err as an error after which reading cannot continue.
func Fatal(err error) error { return &fatalError{err} }

// IsFatal reports whether reading cannot continue after err.
func IsFatal(err error) bool {
	var fatal *fatalError
	return errors.As(err, &fatal)
}

// Next returns the next line that is not blank, without its line end. Next returns io.EOF after the last line. A line
// is valid until the next call of Next.
func (l *Lines) Next() ([]byte, error) {
	for {
		from := l.at
		line, err := l.ReadLine()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 || len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if l.Plain {
			if !utf8.Valid(line) {
				return nil, l.Errorf("not valid UTF-8")
			}
			return line, nil
		}
		if bad := NotText(line); bad >= 0 {
			return nil, l.Errorf("byte offset %d is not UTF-8 text, must be UTF-8 without NUL", from+int64(bad))
		}
		return line, nil
	}
}

// NotText returns the offset of the first byte that is NUL or invalid UTF-8. NotText returns -1 if all bytes are
// valid text.
func NotText(line []byte) int {
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

func (l *Lines) ReadLine() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.readLong(line)
	}
	if len(line) == 0 && err == io.EOF {
		return nil, io.EOF
	}
	if l.Line++; l.Line > math.MaxInt32 {
		return nil, Fatal(l.Errorf("more than %d lines", math.MaxInt32))
	}
	l.at += int64(len(line))
	if err != nil && err != io.EOF {
		return nil, Fatal(fmt.Errorf("%s:%d: %w", l.name, l.Line, err))
	}
	if n := len(line); line[n-1] == '\n' {
		line = bytes.TrimSuffix(line[:n-1], []byte{'\r'})
	}
	if len(line) > MaxLine {
		return nil, Fatal(l.Errorf("the line is longer than %d bytes", MaxLine))
	}
	return line, nil
}

// readLong returns a line that is longer than the buffer. start is the content of the buffer.
func (l *Lines) readLong(start []byte) ([]byte, error) {
	l.long = append(l.long[:0], start...)
	for {
		part, err := l.in.ReadSlice('\n')
		l.long = append(l.long, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l.long, err
		}
		if len(l.long) > MaxLine+2 {
			return l.long, nil // long enough for the error message
		}
	}
}

// readRest returns the remaining bytes of the file.
func (l *Lines) readRest() ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(l.in, maxDocument+1))
	switch {
	case err != nil:
		return nil, Fatal(fmt.Errorf("%s: %w", l.name, err))
	case len(text) > maxDocument:
		return nil, Fatal(fmt.Errorf("%s: one JSON value of more than %d bytes, must be at most that", l.name, maxDocument))
	}
	if bad := NotText(text); bad >= 0 {
		return nil, l.errorAt(text, bad, "byte offset %d is not UTF-8 text, must be UTF-8 without NUL", bad)
	}
	return text, nil
}

func (l *Lines) Errorf(format string, args ...any) error {
	return &loadgen.SyntaxError{Name: l.name, Line: l.Line, Msg: excerpt.Sprintf(format, args...)}
}

// errorAt returns an error with the line number of offset at. text is the complete file.
func (l *Lines) errorAt(text []byte, at int, format string, args ...any) error {
	return &loadgen.SyntaxError{Name: l.name, Line: LineOf(text, at), Msg: excerpt.Sprintf(format, args...)}
}

// LineOf returns the line number of an offset in text, counted from 1.
func LineOf(text []byte, at int) int { return 1 + bytes.Count(text[:min(at, len(text))], []byte{'\n'}) }

// roomFor returns the capacity to allocate when n records are full. The capacity is estimated from the file size. If
// the size is unknown, the capacity is twice n. The first lines can be untypical. The capacity therefore grows at
// most 8 times, or 256 times from 512 records on. Unused capacity stays untouched memory.
func (l *Lines) roomFor(n int) int {
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

// RowError returns err as an error with a file name and a line number.
func RowError(name string, line int, err error) error {
	return &loadgen.SyntaxError{Name: name, Line: line, Msg: err.Error()}
}

// SkipBOM skips a byte-order mark and reports whether there was one.
func (l *Lines) SkipBOM() bool {
	if head, _ := l.in.Peek(3); string(head) == "\xef\xbb\xbf" {
		_, _ = l.in.Discard(3) // always in the buffer
		l.at = 3
		return true
	}
	return false
}

// OffsetOf returns the offset of part in text. part must be a slice of text.
func OffsetOf(text, part []byte) int { return cap(text) - cap(part) }

// FirstValue returns the first line if it is a JSON value, and otherwise the complete file. The bytes can be read
// again.
func (l *Lines) FirstValue(isValue func(text []byte) bool) ([]byte, error) {
	in := l.in
	part, err := in.ReadSlice('\n')
	text := append([]byte(nil), part...)
	for err == bufio.ErrBufferFull && len(text) <= MaxLine {
		part, err = in.ReadSlice('\n')
		text = append(text, part...)
	}
	if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
		return nil, fmt.Errorf("%s:1: %w", l.name, err)
	}
	if !isValue(text) {
		rest, err := l.readRest()
		if err != nil {
			return nil, err
		}
		text = append(text, rest...)
	}
	l.in = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(text), in), readBuffer)
	return text, nil
}

// AppendIn appends v to list. AppendIn allocates capacity for all rows of l, unless l is nil.
func AppendIn[T any](l *Lines, list []T, v T) []T {
	if l != nil && len(list) == cap(list) {
		list = append(make([]T, 0, l.roomFor(len(list))), list...)
	}
	return append(list, v)
}

// EachLine calls do with the object in each line. bad gets the error of a line and reports whether to continue.
func (l *Lines) EachLine(do func(f *Fields) error, bad func(error) (more bool)) error {
	var f Fields
	for {
		err := f.NextLine(l, do)
		if err == io.EOF {
			return nil
		}
		if IsFatal(err) {
			return err
		}
		if err != nil && !bad(err) {
			return nil
		}
	}
}

// EachObject calls do with each object in the file. A file has one object per line, a list of objects, or objects
// over several lines. bad gets the error of an object and reports whether to read more lines.
func (l *Lines) EachObject(do func(f *Fields) error, bad func(error) (more bool)) error {
	head, _ := l.Peek()
	first, _, _ := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte{'\n'})
	var o Object
	if o.ParseText(first) == nil || len(head) == 0 {
		return l.EachLine(do, bad)
	}
	text, err := l.readRest()
	if err != nil {
		return err
	}
	readObject := func(value []byte) {
		f := Fields{Line: LineOf(text, OffsetOf(text, value))}
		f.ReparseText(value)
		if err := f.readBy(do); err != nil {
			bad(RowError(l.name, f.Line, err))
		}
	}
	s := partsOf(text)
	if s.SkipSpace() == '{' {
		for ; s.pos < len(text); s.SkipSpace() {
			from := s.pos
			if err := s.skipValue(); err != nil {
				return l.errorAt(text, min(s.pos, len(bytes.TrimRight(text, " \t\r\n"))), "%v", err)
			}
			readObject(text[from:s.pos])
		}
		return nil
	}
	if err = s.skipValue(); err == nil {
		err = s.CheckEnd()
	}
	if err != nil {
		return l.errorAt(text, s.pos, "%v", err)
	}
	parts, ok := SplitList(text, nil)
	if !ok {
		return l.errorAt(text, 0, "the file is %s, must be an object or a list of objects", excerpt.Cut(bytes.TrimSpace(text)))
	}
	for _, p := range parts {
		readObject(p)
	}
	return nil
}
