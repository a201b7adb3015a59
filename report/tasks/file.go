package tasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// FileName is the name of the file in a run directory.
const FileName = "tasks.json"

// Write writes the study as JSON.
func (s *Study) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(s)
}

// Read reads what Write wrote into a run directory.
func Read(dir string) (*Study, error) {
	path := filepath.Join(dir, FileName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no tasks in this run, want one of a trace whose requests wait for several others", dir)
	}
	if err != nil {
		return nil, err
	}
	s := new(Study)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
