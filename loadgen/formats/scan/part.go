package scan

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
)

// Part is consecutive whole lines of a file, of which several can be read at once.
type Part struct {
	text []byte
	left []byte // of text, to be read
	err  error  // after text
	from Place
}

// Place is a place in a file, after a line.
type Place struct {
	line int
	at   int64
}

// Place returns the place after the line last returned.
func (l *Lines) Place() Place { return Place{l.Line, l.at} }

// MoveTo sets the place for messages and for the room that is made.
func (l *Lines) MoveTo(p Place) { l.Line, l.at = p.line, p.at }

// IsLong reports whether at least size bytes of the file are left, or may be.
func (l *Lines) IsLong(size int64) bool { return l.size == 0 || l.size-l.at >= size }

// TakeRest returns lines to cut parts from. l is not read any more, and keeps its place.
func (l *Lines) TakeRest() *Lines {
	rest := *l
	return &rest
}

// NewPartLines returns lines to read parts of l with.
func (l *Lines) NewPartLines() *Lines {
	return &Lines{name: l.name, in: bufio.NewReaderSize(nil, readBuffer), Plain: l.Plain}
}

// Begin starts to read a part.
func (l *Lines) Begin(p *Part) {
	p.left = p.text
	l.in.Reset(p)
	l.MoveTo(p.from)
}

// Read returns the rest of the part, then the error that ended it.
func (p *Part) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, p.err
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}

// ReadPart fills p with the next lines, size bytes and the rest of the last line. It returns false after the last.
func (l *Lines) ReadPart(p *Part, size int) bool {
	p.text = slices.Grow(p.text[:0], size)[:size]
	n, err := io.ReadFull(l.in, p.text)
	p.text = p.text[:n]
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	for end := size + MaxLine + 2; err == nil && len(p.text) <= end; {
		var rest []byte
		rest, err = l.in.ReadSlice('\n')
		p.text = append(p.text, rest...)
		if err == nil {
			break
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			err = nil
		}
	}
	p.from = l.Place()
	l.at += int64(len(p.text))
	l.Line += bytes.Count(p.text, []byte{'\n'})
	if p.err = err; err == nil {
		p.err = io.EOF
	}
	return len(p.text) > 0 || p.err != io.EOF
}
