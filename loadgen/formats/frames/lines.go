// Package frames reads Parquet and Arrow IPC (Feather) files as lines of JSON. Each line is an object for a row, with
// the column names as keys.
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

// rows iterates over the rows of a file.
type rows interface {
	// Append appends the next row to line as JSON. Append returns io.EOF after the last row.
	Append(line []byte) ([]byte, error)
}

// KindOf returns the format of a data frame file by its first bytes. KindOf returns "" for other files.
func KindOf(head []byte) string {
	switch text := string(head); {
	case strings.HasPrefix(text, parquetfile.Magic):
		return "Parquet"
	case strings.HasPrefix(text, fileMagic), strings.HasPrefix(text, "\xff\xff\xff\xff") && len(text) > 8:
		return "Arrow"
	}
	return ""
}

// Source is a data frame file with random access, for example an os.File or a bytes.Reader.
type Source interface {
	io.Reader
	io.ReaderAt
}

// Open returns the rows of a file as lines. kind is the result of KindOf. size is the file size in bytes.
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

// ReadAll returns the rows of a file without random access as lines. ReadAll reads the file into memory.
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

// maxFile is the maximum size of a file in memory, in bytes.
const maxFile = 4 << 30

// lines implements io.Reader for rows.
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
