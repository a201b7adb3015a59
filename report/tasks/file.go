package tasks

import (
	"io"

	"github.com/replay-llm/replay/report/rundir"
)

// FileName is the name of the file in a run directory.
const FileName = "tasks.json"

// Write writes the study as JSON.
func (s *Study) Write(w io.Writer) error { return rundir.WriteJSON(w, s) }

// Read reads the output of Write into a run directory.
func Read(dir string) (*Study, error) {
	return rundir.ReadJSON[Study](dir, FileName, "this run has no tasks, use a run of a trace with requests that wait for several requests")
}
