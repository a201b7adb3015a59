package rundir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/replay-llm/replay/internal/json"
)

// WriteJSON writes the content of a JSON file of a run directory, one value per line.
func WriteJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(value)
}

// ReadJSON reads the file with this name in a run directory, written by WriteJSON. If the file does not exist, the
// error is fs.ErrNotExist with the text absent.
func ReadJSON[T any](dir, name, absent string) (*T, error) {
	path := filepath.Join(dir, name)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &absentError{dir + ": " + absent}
	}
	if err != nil {
		return nil, err
	}
	value := new(T)
	if err := json.Unmarshal(text, value); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return value, nil
}

// absentError reports that a run has no file of some kind.
type absentError struct{ text string }

func (e *absentError) Error() string { return e.text }

func (*absentError) Unwrap() error { return fs.ErrNotExist }
