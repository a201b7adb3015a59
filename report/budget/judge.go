package budget

import (
	"fmt"
	"maps"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/rundir"
)

// Run is the run that is checked.
type Run struct {
	Name       string
	Lifecycles string // "" when there is a report alone
	Values     map[string]float64
	Report     *collector.Report
}

// Load reads a run directory or a report file.
func Load(path string) (*Run, error) {
	run, report, err := rundir.Load(path)
	if err != nil {
		return nil, err
	}
	r := &Run{Name: path, Values: report.Numbers(), Report: report}
	if run != nil {
		r.Lifecycles = run.Lifecycles
	}
	return r, nil
}

// Outcome is the result of a check.
type Outcome struct {
	File    *File
	Run     *Run
	Lines   []Line
	Changed Change
}

// Line is the result for one budget.
type Line struct {
	Budget
	Baseline    float64
	HasBaseline bool
	Value       float64
	Least, Most float64 // allowed; infinite: no limit
	Exceeded    bool
}

// Change reports whether requests were routed or scheduled otherwise than in the baseline.
type Change uint8

const (
	Unknown   Change = iota // one of the sides has a report alone
	Unchanged               // every request is equal to the last bit
	Changed
)

func (c Change) String() string { return [...]string{"not known", "unchanged", "changed"}[c] }

// refuseKey returns the error of a budget for a key that the report of a run does not contain.
func (f *File) refuseKey(b *Budget, run *Run) error {
	names := slices.Sorted(maps.Keys(run.Values))
	return excerpt.Errorf("%s:%d: %s: no such number in the report of %s%s", f.Path, b.Line, b.Key, run.Name, nearest.Ask(b.Key, names))
}

// Judge checks run against the budgets of f. Judge returns an error if a value or the baseline is missing.
func (f *File) Judge(run *Run) (*Outcome, error) {
	o := &Outcome{File: f, Run: run}
	for _, b := range f.Budgets {
		l := Line{Budget: b}
		var ok bool
		if l.Value, ok = run.Values[b.Key]; !ok {
			return nil, f.refuseKey(&b, run)
		}
		if f.Baseline != nil {
			l.Baseline, l.HasBaseline = f.Baseline.Values[b.Key]
		}
		if b.needsBaseline() && !l.HasBaseline {
			return nil, fmt.Errorf("%s:%d: %s: no baseline, run replay check --update first", f.Path, b.Line, b.Key)
		}
		l.Least, l.Most = b.allowedRange(l.Baseline)
		l.Exceeded = !(l.Value >= l.Least && l.Value <= l.Most)
		o.Lines = append(o.Lines, l)
	}
	if f.Baseline != nil && f.Baseline.Lifecycles != "" && run.Lifecycles != "" {
		o.Changed = Unchanged
		if f.Baseline.Lifecycles != run.Lifecycles {
			o.Changed = Changed
		}
	}
	return o, nil
}

// Exceeded returns the number of exceeded budgets.
func (o *Outcome) Exceeded() int {
	n := 0
	for i := range o.Lines {
		if o.Lines[i].Exceeded {
			n++
		}
	}
	return n
}

// Behaves reports whether the requests were routed and scheduled as the file requires.
func (o *Outcome) Behaves() bool { return !o.File.Exact || o.Changed != Changed }
