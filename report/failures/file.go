package failures

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/replay-llm/replay/report/rundir"
)

// FileName is the name of the file in a run directory.
const FileName = "faults.json"

// Write writes the study as JSON.
func (s *Study) Write(w io.Writer) error { return rundir.WriteJSON(w, s) }

// Read reads the output of Write into a run directory.
func Read(dir string) (*Study, error) {
	s, err := rundir.ReadJSON[Study](dir, FileName, "this run has no faults, use a run of replay trace --faults")
	if err != nil {
		return nil, err
	}
	if !(s.WindowMS > 0) || len(s.Windows) == 0 {
		return nil, fmt.Errorf("%s: no windows, expected those of a run", filepath.Join(dir, FileName))
	}
	return s, nil
}
