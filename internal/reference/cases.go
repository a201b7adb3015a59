package reference

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/replay-llm/replay/replay/collector"
)

// Outcomes of a run of the reference.
const (
	OK        = "ok"         // the case has a report and, for short traces, its requests
	Failed    = "error"      // the reference ended with an error
	NeverEnds = "never ends" // the run was stopped because it did not end
)

// Case is a run of the reference.
type Case struct {
	Name    string   `json:"name"`
	Trace   string   `json:"trace"` // file name; "": a synthetic workload
	Args    []string `json:"args"`  // command-line flags of the reference
	Outcome string   `json:"outcome"`
	Note    string   `json:"note"`
	Errors  []string `json:"error"` // error messages of a failed run

	dir string
}

// Load reads the file cases.json in dir.
func Load(dir string) ([]Case, error) {
	path := filepath.Join(dir, "cases.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var cases []Case
	if err := json.Unmarshal(text, &cases); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range cases {
		cases[i].dir = dir
		if cases[i].Name == "" {
			return nil, fmt.Errorf("%s: case %d has no name", path, i)
		}
	}
	return cases, nil
}

// TracePath returns the path of the trace. The trace is in the folder traces/ in the folder of the results or in its
// parent folder. The path is "" for a synthetic workload.
func (c *Case) TracePath() (string, error) {
	if c.Trace == "" {
		return "", nil
	}
	near := filepath.Join(c.dir, "traces", c.Trace)
	far := filepath.Join(c.dir, "..", "traces", c.Trace)
	for _, path := range []string{near, far} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("case %s: no trace at %s or %s", c.Name, near, far)
}

// Report reads the report of the reference for a case with outcome OK.
func (c *Case) Report() (*collector.Report, error) {
	return ReadReport(filepath.Join(c.dir, c.Name+".json"))
}

// ReadReport reads a report from a file.
func ReadReport(path string) (*collector.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := collector.ReadJSON(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Requests reads the recorded requests of the reference in input order. Requests reports false if the requests were
// not recorded.
func (c *Case) Requests() ([]Request, bool, error) {
	requests, err := ReadRequests(filepath.Join(c.dir, c.Name+".requests.jsonl.gz"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return requests, err == nil, err
}
