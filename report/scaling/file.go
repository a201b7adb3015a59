package scaling

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
const FileName = "scaling.json"

// Write writes the study as JSON.
func (s *Study) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(s)
}

// Read reads what Write wrote into a run directory. The error is fs.ErrNotExist where there was no
// autoscaler.
func Read(dir string) (*Study, error) {
	path := filepath.Join(dir, FileName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: nobody changed the number of workers in this run, want one of replay trace --autoscale: %w", dir, fs.ErrNotExist)
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

// Find returns an act by its number.
func (s *Study) Find(number int) (*Act, error) {
	if number < 1 || number > len(s.Acts) {
		return nil, fmt.Errorf("no act %d of an autoscaler, want 1 to %d", number, len(s.Acts))
	}
	return &s.Acts[number-1], nil
}
