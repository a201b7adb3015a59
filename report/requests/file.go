package requests

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Format is the format of a per-request file. A Format equals the extension of the file name.
type Format string

const (
	Parquet Format = "parquet"
	JSONL   Format = "jsonl"
	CSV     Format = "csv"
	Arrow   Format = "arrow" // a stream of Arrow IPC, which ReadFile does not read
)

// FormatOf returns the format for the extension of a file name.
func FormatOf(path string) (Format, error) {
	end := filepath.Ext(path)
	switch f := Format(strings.TrimPrefix(end, ".")); f {
	case Parquet, JSONL, CSV, Arrow:
		return f, nil
	}
	return "", excerpt.Errorf("%s: its name ends in %q, must end in .parquet, .arrow, .jsonl or .csv", path, end)
}

// form writes rows in a format.
type form interface {
	addRows(rows []Row) error
	close() error
}

func newForm(w io.Writer, f Format, columns []Column) form {
	switch f {
	case JSONL:
		return newJSONL(w, columns)
	case CSV:
		return newCSV(w, columns)
	case Arrow:
		return newArrow(w, columns)
	}
	return newParquet(w, columns)
}

// Write writes rows in the given format.
func Write(w io.Writer, f Format, rows []Row) error {
	to := newForm(w, f, columnsOf(rows))
	if err := to.addRows(rows); err != nil {
		return err
	}
	return to.close()
}

// Writer writes rows incrementally. The file equals the file that Write makes of all rows.
type Writer struct {
	out    io.Writer
	format Format
	to     form // nil: the columns are not known yet
	rows   []Row
}

// rowsAtOnce is the number of rows that a Writer buffers, a multiple of batch.
const rowsAtOnce = 4 * batch

// NewWriter returns a Writer in the given format.
func NewWriter(w io.Writer, f Format) *Writer {
	return &Writer{out: w, format: f, rows: make([]Row, 0, rowsAtOnce)}
}

// Add writes a row, possibly later.
func (w *Writer) Add(r *Row) error {
	if w.rows = append(w.rows, *r); len(w.rows) < rowsAtOnce {
		return nil
	}
	return w.flush()
}

func (w *Writer) flush() error {
	if w.to == nil {
		w.to = newForm(w.out, w.format, columnsOf(w.rows))
	}
	err := w.to.addRows(w.rows)
	w.rows = w.rows[:0]
	return err
}

// Close writes the buffered rows.
func (w *Writer) Close() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.to.close()
}

// ReadFile reads a per-request file in the format of its extension. Columns that the file lacks are unknown in the
// rows; unknown columns are skipped.
func ReadFile(path string) ([]Row, error) {
	f, err := FormatOf(path)
	if err != nil {
		return nil, err
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var rows []Row
	switch f {
	case JSONL:
		rows, err = readJSONL(in)
	case CSV:
		rows, err = readCSV(in)
	case Arrow:
		err = errors.New("files of Arrow are written only, must be .parquet, .jsonl or .csv")
	default:
		rows, err = readParquet(in)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}
