package requests

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Format is the form of a per-request file, and the end of its name.
type Format string

const (
	Parquet Format = "parquet"
	JSONL   Format = "jsonl"
	CSV     Format = "csv"
)

// FormatOf is the format that the end of a file's name stands for.
func FormatOf(path string) (Format, error) {
	end := filepath.Ext(path)
	switch f := Format(strings.TrimPrefix(end, ".")); f {
	case Parquet, JSONL, CSV:
		return f, nil
	}
	return "", fmt.Errorf("%s: its name ends in %q, want .parquet, .jsonl or .csv", path, end)
}

// Write writes rows in the given format.
func Write(w io.Writer, f Format, rows []Row) error {
	switch f {
	case JSONL:
		return writeJSONL(w, rows)
	case CSV:
		return writeCSV(w, rows)
	}
	return writeParquet(w, rows)
}

// ReadFile reads a per-request file in the format its name stands for. Columns
// that a row does not have are unknown; columns it does not know are skipped.
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
	default:
		rows, err = readParquet(in)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}
