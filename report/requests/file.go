package requests

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Format is the form of a per-request file.
type Format uint8

const (
	Parquet Format = iota
	JSONL
	CSV
)

func (f Format) String() string { return [...]string{"parquet", "jsonl", "csv"}[f] }

// FormatOf is the format that the end of a file's name stands for.
func FormatOf(path string) (Format, error) {
	end := filepath.Ext(path)
	for f := Parquet; f <= CSV; f++ {
		if end == "."+f.String() {
			return f, nil
		}
	}
	return 0, fmt.Errorf("%s: its name ends in %q, want .parquet, .jsonl or .csv", path, end)
}

// ParseFormat is the format of the given name.
func ParseFormat(name string) (Format, error) {
	for f := Parquet; f <= CSV; f++ {
		if f.String() == name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("format is %q, want parquet, jsonl or csv", name)
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
