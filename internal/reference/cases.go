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

// Outcomes of the reference.
const (
	OK        = "ok"         // there are a report and, for short traces, its requests
	Failed    = "error"      // it gave up
	NeverEnds = "never ends" // it was still running when it was stopped
)

// Case is one run of the reference.
type Case struct {
	Name    string   `json:"name"`
	Trace   string   `json:"trace"` // file name; "" is a synthetic workload
	Args    []string `json:"args"`  // flags of the reference's command line
	Outcome string   `json:"outcome"`
	Note    string   `json:"note"`
	Errors  []string `json:"error"` // what it said when it failed

	dir string
}

// Load reads cases.json in dir.
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

// TracePath returns where the trace is: in traces/ next to the results, or next to their directory. A synthetic
// workload has none and gives "".
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

// Report reads the reference's report of a case with outcome OK.
func (c *Case) Report() (*collector.Report, error) {
	return ReadReport(filepath.Join(c.dir, c.Name+".json"))
}

// ReadReport reads a file with a report.
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

// Requests reads what the reference did to each request, in input order. It
// reports false when that was not kept.
func (c *Case) Requests() ([]Request, bool, error) {
	requests, err := ReadRequests(filepath.Join(c.dir, c.Name+".requests.jsonl.gz"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return requests, err == nil, err
}
