// Package diff finds the differences between two runs: their values, their requests, and
// where the ways of the requests part.
//
// Read side.go (what is compared), diff.go, requests.go, text.go.
package diff

import (
	"fmt"
	"path/filepath"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/passes"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/rundir"
)

// Side is one of the runs.
type Side struct {
	Name   string
	Report *collector.Report
	Run    *rundir.Run    // nil when there is a report alone
	Rows   []requests.Row // nil when there is a report alone
}

// Load reads a run directory, or a report file, which may be one that the
// reference wrote.
func Load(path string) (*Side, error) {
	run, report, err := rundir.Load(path)
	if err != nil || run == nil {
		return &Side{Name: path, Report: report}, err
	}
	rows, err := run.Rows()
	return &Side{Name: filepath.Clean(path), Report: report, Run: run, Rows: rows}, err
}

// Passes reads the passes that were recorded with the run. An error wraps
// fs.ErrNotExist when there are none.
func (s *Side) Passes() ([]passes.Pass, error) {
	return passes.ReadFile(filepath.Join(s.Name, passes.FileName))
}

// settingsByKey are those of the run, by key.
func (s *Side) settingsByKey() map[string]string {
	all := map[string]string{}
	if s.Run == nil {
		return all
	}
	for key, value := range s.Run.Config {
		all[key] = string(value)
	}
	for i, in := range s.Run.Inputs {
		all[fmt.Sprintf("input.%d.%s", i, in.Role)] = fmt.Sprintf("%q", in.SHA256[:min(12, len(in.SHA256))])
	}
	return all
}
