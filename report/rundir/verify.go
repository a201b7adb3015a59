package rundir

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/requests"
)

// Finding is the result for one file or value that Verify checked.
type Finding struct {
	What string
	// Differs describes the difference; "": none.
	Differs string
	// Note is the reason why the check was not possible, or a remark.
	Note string
}

// Verify computes the contents of run.json again from the files in a run directory. It replays nothing. The error is
// not nil if the directory cannot be read.
func Verify(dir string) ([]Finding, error) {
	r, err := Open(dir)
	if err != nil {
		return nil, err
	}
	var all []Finding
	for _, f := range r.Files {
		all = append(all, r.verifyFile(f))
	}
	for _, in := range r.Inputs {
		all = append(all, verifyInput(in))
	}
	rows, err := r.Rows()
	if err != nil {
		return nil, err
	}
	report, err := r.Report()
	if err != nil {
		return nil, err
	}
	all = append(all, verifyReport(report, rows, r.Partial)...)
	d := NewDigest(r.Inputs, r.Config, Lifecycles(rows))
	return append(all,
		compareFile("configuration", d.Configuration, r.Configuration),
		compareFile("lifecycles", d.Lifecycles, r.Lifecycles),
		compareFile("digest", d.Run, r.Digest.Run),
	), nil
}

func compareFile(what, got, want string) Finding {
	f := Finding{What: what}
	if got != want {
		f.Differs = fmt.Sprintf("is %s, %s says %s", got, RunFile, want)
	}
	return f
}

func (r *Run) verifyFile(f Stored) Finding {
	found := Finding{What: f.Name}
	if filepath.Base(f.Name) != f.Name {
		found.Differs = "is no name of a file in the directory"
		return found
	}
	got, err := HashFile("", filepath.Join(r.dir, f.Name))
	switch {
	case err != nil:
		found.Differs = err.Error()
	case got.SHA256 != f.SHA256:
		found.Differs = fmt.Sprintf("has sha256 %s (%d bytes), %s says %s (%d bytes)", got.SHA256, got.Bytes, RunFile, f.SHA256, f.Bytes)
	}
	return found
}

// CheckInputs returns an error with the name of the first input that has changed or no longer exists.
func (r *Run) CheckInputs() error {
	for _, in := range r.Inputs {
		switch f := verifyInput(in); {
		case f.Differs != "":
			return fmt.Errorf("%s has changed since", f.What)
		case f.Note != "":
			return fmt.Errorf("%s: %s", f.What, f.Note)
		}
	}
	return nil
}

// verifyInput compares an existing input with the record of the run.
func verifyInput(in Input) Finding {
	found := Finding{What: in.Role + " " + in.Path}
	if st, err := os.Stat(in.Path); err != nil || !st.Mode().IsRegular() {
		found.Note = "not there to be compared"
		return found
	}
	got, err := HashFile(in.Role, in.Path)
	switch {
	case err != nil:
		found.Note = err.Error()
	case got.SHA256 != in.SHA256:
		found.Differs = fmt.Sprintf("has sha256 %s (%d bytes), the run read %s (%d bytes)", got.SHA256, got.Bytes, in.SHA256, in.Bytes)
	}
	return found
}

// verifyReport computes the report values that depend on single requests again from the rows.
func verifyReport(report *collector.Report, rows []requests.Row, partial bool) []Finding {
	values := report.Values()
	var all []Finding
	for _, f := range requests.Totals(rows, partial) {
		found := Finding{What: f.Key}
		if values[f.Key] != f.Value() {
			found.Differs = fmt.Sprintf("%s has %v, the requests give %v", ReportFile, values[f.Key], f.Value())
		}
		all = append(all, found)
	}
	return all
}
