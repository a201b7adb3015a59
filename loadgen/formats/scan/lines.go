// Package scan takes the text of traces apart: lines, JSON values, numbers and instants.
//
// It has a JSON scanner, one for all formats. The scanner reads a Mooncake row in a tenth of the time of encoding/json and
// in somewhat less than that of goccy/go-json (loadgen/formats/mooncake.BenchmarkRow). Neither library refuses a key that is given twice,
// or reports the place of a wrong value in a list (loadgen/formats/registry.TestWhyAScanner). All other JSON is read and written by
// internal/json.
//
// Read input.go (files, packed or not), lines.go, scan.go (with values.go and number.go), json.go, fields.go and stamp.go.
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
	maxDocument = 1 << 30  // bytes of a file that is one JSON value
	readBuffer  = 256 << 10
)

// Lines cuts a file into lines.
type Lines struct {
	name string
	in   *bufio.Reader
	Line int    // number of the line last returned, blank ones counted
	at   int64  // offset of the next byte
	size int64  // bytes of the file, 0 if not known
	long []byte // a line that does not fit the buffer
	// plain leaves NUL bytes to the scanner, which refuses them anywhere.
	Plain bool
}

// NewLines cuts the size bytes of r; 0 if the size is unknown. name is the name of the file in messages.
func NewLines(r io.Reader, name string, size int64) *Lines {
	return &Lines{name: name, in: bufio.NewReaderSize(r, readBuffer), size: size}
}

// window is the number of bytes of a file that are checked before it is read.
const window = 64 << 10

// Peek returns the next byte without reading it: io.EOF at the end.
func (l *Lines) Peek() ([]byte, error) { return l.in.Peek(window) }

// fatalError is an error after which reading cannot continue.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// Fatal makes err the end of reading.
func Fatal(err error) error { return &fatalError{err} }

// IsFatal reports whether err is the end of reading.
func IsFatal(err error) bool {
	var fatal *fatalError
	return errors.As(err, &fatal)
}

// Next returns the next line that is not blank, without its end; io.EOF comes
// after the last. The line is valid until the call after.
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

// NotText is the place of the first byte that no text has, or -1.
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

// readLong collects a line of which start is all the buffer holds.
func (l *Lines) readLong(start []byte) ([]byte, error) {
	l.long = append(l.long[:0], start...)
	for {
		part, err := l.in.ReadSlice('\n')
		l.long = append(l.long, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l.long, err
		}
		if len(l.long) > MaxLine+2 {
			return l.long, nil // enough to report that it is too long
		}
	}
}

// readRest is the whole file from here on.
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

// errorAt complains about a byte of the whole file.
func (l *Lines) errorAt(text []byte, at int, format string, args ...any) error {
	return &loadgen.SyntaxError{Name: l.name, Line: LineOf(text, at), Msg: excerpt.Sprintf(format, args...)}
}

// LineOf is the line of the byte at an offset of text, from 1.
func LineOf(text []byte, at int) int { return 1 + bytes.Count(text[:min(at, len(text))], []byte{'\n'}) }

// roomFor is the number of records to allocate when n are full: the estimate by the size of the file, or twice n if
// that is unknown. The first lines may be unlike the rest, so that a few are trusted for 8 times as many only, and some
// hundreds for 256 times. Of the room nothing is touched that is not needed.
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

// RowError returns err as an error about a line of the named file.
func RowError(name string, line int, err error) error {
	return &loadgen.SyntaxError{Name: name, Line: line, Msg: err.Error()}
}

// SkipBOM goes over a byte-order mark.
func (l *Lines) SkipBOM() bool {
	if head, _ := l.in.Peek(3); string(head) == "\xef\xbb\xbf" {
		_, _ = l.in.Discard(3) // they are in the buffer
		l.at = 3
		return true
	}
	return false
}

// OffsetOf is the offset of part, which is a slice of text.
func OffsetOf(text, part []byte) int { return cap(text) - cap(part) }

// FirstValue is the first line when it is a value, and all of the file when it
// is not. Either can be read again.
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

// AppendIn appends v to the results of the rows of l; nil: to none.
func AppendIn[T any](l *Lines, list []T, v T) []T {
	if l != nil && len(list) == cap(list) {
		list = append(make([]T, 0, l.roomFor(len(list))), list...)
	}
	return append(list, v)
}

// EachLine calls do with every line, an object. bad gets the error of a line, and reports whether to read more.
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

// EachObject calls do with every object of the file: one over several lines, those of a list, or one per line. bad gets
// the error of an object, and reports whether to read more lines.
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
