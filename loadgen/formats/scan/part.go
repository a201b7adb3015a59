package scan

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
)

// Part has consecutive complete lines of a file. Several parts can be parsed at the same time.
type Part struct {
	text []byte
	left []byte // the end of text that is not read yet
	err  error  // error after text
	from Place
}

// Place is the position after a line of a file.
type Place struct {
	line int
	at   int64
}

// Place returns the position after the latest returned line.
func (l *Lines) Place() Place { return Place{l.Line, l.at} }

// MoveTo sets the position for messages and for roomFor.
func (l *Lines) MoveTo(p Place) { l.Line, l.at = p.line, p.at }

// IsLong reports whether the remaining file has size or more bytes. IsLong returns true if the size is unknown.
func (l *Lines) IsLong(size int64) bool { return l.size == 0 || l.size-l.at >= size }

// TakeRest returns a copy of l that is used to read parts. l must not read any more, and its position does not
// change.
func (l *Lines) TakeRest() *Lines {
	rest := *l
	return &rest
}

// NewPartLines returns a reader for the lines of parts of l.
func (l *Lines) NewPartLines() *Lines {
	return &Lines{name: l.name, in: bufio.NewReaderSize(nil, readBuffer), Plain: l.Plain}
}

// Begin starts reading a part.
func (l *Lines) Begin(p *Part) {
	p.left = p.text
	l.in.Reset(p)
	l.MoveTo(p.from)
}

// Read reads from the part. After the last byte Read returns the error at the end of the part.
func (p *Part) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, p.err
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}

// ReadPart fills p with the next size bytes and the remaining bytes of the last line. ReadPart returns false after
// the end of the file.
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
