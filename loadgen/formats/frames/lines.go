// Package frames reads files of data frames, Parquet and Arrow IPC (Feather), as lines of JSON: an object for each row, with the names
// of columns as keys.
//
// Read lines.go, then arrow.go, batch.go and flatbuffer.go.
package frames

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/replay-llm/replay/internal/parquetfile"
)

// rows are the rows of a file.
type rows interface {
	// Append appends the next row to a line, io.EOF after the last row.
	Append(line []byte) ([]byte, error)
}

// KindOf returns the name of the format of a file of frames that begins with head, "" for other files.
func KindOf(head []byte) string {
	switch text := string(head); {
	case strings.HasPrefix(text, parquetfile.Magic):
		return "Parquet"
	case strings.HasPrefix(text, fileMagic), strings.HasPrefix(text, "\xff\xff\xff\xff") && len(text) > 8:
		return "Arrow"
	}
	return ""
}

// Source is a file of frames: an os.File, or a bytes.Reader.
type Source interface {
	io.Reader
	io.ReaderAt
}

// Open returns the lines of a file of size bytes of a kind.
func Open(kind string, in Source, size int64) (io.Reader, error) {
	if kind == "Parquet" {
		f, err := parquetfile.Open(in, size)
		if err != nil {
			return nil, err
		}
		return &lines{rows: f.NewRows()}, nil
	}
	r, err := openArrow(in, size)
	if err != nil {
		return nil, err
	}
	return &lines{rows: r}, nil
}

// ReadAll returns the lines of a file that cannot be read at any place.
func ReadAll(kind string, in io.Reader) (io.Reader, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, errors.New("more than 4 GiB from standard input or a packed file, must be a plain file")
	}
	return Open(kind, bytes.NewReader(text), int64(len(text)))
}

// maxFile bounds a file in memory.
const maxFile = 4 << 30

// lines are rows as a text.
type lines struct {
	rows rows
	line []byte
	at   int
}

func (l *lines) Read(p []byte) (int, error) {
	for l.at == len(l.line) {
		var err error
		if l.line, err = l.rows.Append(l.line[:0]); err != nil {
			l.line, l.at = l.line[:0], 0
			return 0, err
		}
		l.line, l.at = append(l.line, '\n'), 0
	}
	n := copy(p, l.line[l.at:])
	l.at += n
	return n, nil
}
