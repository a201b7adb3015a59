package scaling

import (
	"fmt"
	"io"

	"github.com/replay-llm/replay/report/rundir"
)

// FileName is the name of the file in a run directory.
const FileName = "scaling.json"

// Write writes the study as JSON.
func (s *Study) Write(w io.Writer) error { return rundir.WriteJSON(w, s) }

// Read reads the output of Write in a run directory. The error is fs.ErrNotExist if there was no autoscaler.
func Read(dir string) (*Study, error) {
	return rundir.ReadJSON[Study](dir, FileName, "the number of workers is constant in this run, use a run of replay trace --autoscale")
}

// Find returns a scaling action by its number.
func (s *Study) Find(number int) (*Act, error) {
	if len(s.Acts) == 0 {
		return nil, fmt.Errorf("no act %d of an autoscaler: there was none in this run", number)
	}
	if number < 1 || number > len(s.Acts) {
		return nil, fmt.Errorf("no act %d of an autoscaler, must be 1 to %d", number, len(s.Acts))
	}
	return &s.Acts[number-1], nil
}
