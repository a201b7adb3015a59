// Package rundir writes and reads the directory of a run: its report, its requests, and its inputs and settings.
//
// Read run.go (the files), settings.go and digest.go (the identity of a run), write.go (how a directory appears when
// it is complete), group.go (several directories), verify.go (the checks).
package rundir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/file"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/requests"
)

// Names of the files in a run directory.
const (
	RunFile    = "run.json"
	ReportFile = "report.json"
)

// Layout is the version of the directory's layout.
const Layout = 1

// Run is the content of run.json.
type Run struct {
	Layout   int      `json:"layout"`
	Version  string   `json:"version"` // of the program
	Command  []string `json:"command"` // its arguments
	Seed     uint64   `json:"seed"`
	Compat   bool     `json:"compat"`
	Partial  bool     `json:"partial"` // ended while requests were left
	Requests string   `json:"requests_file"`
	Inputs   []Input  `json:"inputs"`
	Config   Settings `json:"config"`
	// Dropped counts the rows of the trace that were not replayed.
	Dropped []Dropped `json:"dropped,omitempty"`
	// Lines are the lines below the table of the report.
	Lines []string `json:"lines,omitempty"`
	Digest
	Files []Stored `json:"files"`
	// Absent lists files of other runs that this run lacks, with the reasons.
	Absent []Absent `json:"absent,omitempty"`

	dir string // where it was read from
}

// Dropped is a number of rows that were not replayed, with the key that it has in the report.
type Dropped struct {
	Reason string `json:"reason"`
	Rows   int    `json:"rows"`
}

// Absent is a file that is not in the directory.
type Absent struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Stored is a file of the directory other than run.json.
type Stored struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Open reads the run.json of a directory.
func Open(dir string) (*Run, error) {
	path := filepath.Join(dir, RunFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: is no run directory, must be %s in it", dir, RunFile)
	}
	if err != nil {
		return nil, err
	}
	r := &Run{dir: dir}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Layout != Layout {
		return nil, fmt.Errorf("%s: layout is %d, must be %d", path, r.Layout, Layout)
	}
	return r, nil
}

// Load reads the report at path: a report file, also of the reference, or a run directory. For a report file the run
// is nil.
func Load(path string) (*Run, *collector.Report, error) {
	st, err := file.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !st.IsDir() {
		report, err := readReport(path)
		return nil, report, err
	}
	run, err := Open(path)
	if err != nil {
		return nil, nil, err
	}
	report, err := run.Report()
	return run, report, err
}

// Report reads the run's report.
func (r *Run) Report() (*collector.Report, error) {
	return readReport(filepath.Join(r.dir, ReportFile))
}

// Rows reads the run's requests.
func (r *Run) Rows() ([]requests.Row, error) {
	if r.Requests == "" || filepath.Base(r.Requests) != r.Requests {
		return nil, excerpt.Errorf("%s: requests_file is %q, must be the name of a file in its directory", filepath.Join(r.dir, RunFile), r.Requests)
	}
	return requests.ReadFile(filepath.Join(r.dir, r.Requests))
}

// readReport reads a report file.
func readReport(path string) (*collector.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	report, err := collector.ReadJSON(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return report, nil
}

// writeJSON writes run.json.
func (r *Run) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
