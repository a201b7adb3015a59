package plan

import (
	"context"
	"encoding/json"
)

// Outcome is what became of a cell: a report, or the reason why there is none.
type Outcome struct {
	Key    string          `json:"key"` // of the task
	Report json.RawMessage `json:"report,omitempty"`
	Reason string          `json:"reason,omitempty"`
}

// RunCell replays one cell and returns its report, a JSON object. Cells are
// independent: it is called from several goroutines at once.
type RunCell func(context.Context, *Cell) (json.RawMessage, error)

// Sweep is a grid with the way its cells are run.
type Sweep struct {
	Cells []Cell
	Keys  []string // of the cells' tasks
	Run   RunCell
	Cores int // cells at once, at least 1; no outcome depends on it
	// Journal, when not nil, has the outcomes of an earlier sweep, and gets
	// those of this one.
	Journal *Journal
	// Progress, when not nil, is called with the number of cells done, from
	// several goroutines.
	Progress func(done int)
}

// Do runs all cells that the journal does not have, and returns the outcomes in
// grid order and how many of them were run. A cell that fails does not stop
// the others.
func (s *Sweep) Do(ctx context.Context) (outcomes []Outcome, ran int, err error) {
	outcomes = make([]Outcome, len(s.Cells))
	var left []int
	for i, key := range s.Keys {
		if report, ok := s.Journal.Report(key); ok {
			outcomes[i] = Outcome{Key: key, Report: report}
		} else {
			left = append(left, i)
		}
	}
	var done meter
	done.done.Store(int64(len(s.Cells) - len(left)))
	if s.Progress != nil {
		done.report = func(n, _ int) { s.Progress(n) }
	}
	err = Each(ctx, len(left), s.Cores, func(ctx context.Context, n int) error {
		i := left[n]
		o := Outcome{Key: s.Keys[i]}
		report, err := s.Run(ctx, &s.Cells[i])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			o.Reason = err.Error()
		} else {
			o.Report = report
		}
		outcomes[i] = o
		done.count()
		return s.Journal.Add(&o)
	})
	return outcomes, len(left), err
}
