package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/replay-llm/replay/internal/json"
)

// Outcome is the result of a cell: a report, or the reason why there is none.
type Outcome struct {
	Key    string          `json:"key"` // of the task
	Report json.RawMessage `json:"report,omitempty"`
	Reason string          `json:"reason,omitempty"`
}

// RunCell replays one cell and returns its report, a JSON object. A RunCell is called from several goroutines, and
// cells are independent.
type RunCell func(context.Context, *Cell) (json.RawMessage, error)

// Sweep is a grid with the function that runs its cells.
type Sweep struct {
	Cells []Cell
	Keys  []string // of the cells' tasks
	Run   RunCell
	Cores int // cells at once, at least 1; no outcome depends on it
	// Journal, if not nil, contains the outcomes of an earlier sweep, and stores the outcomes of this sweep.
	Journal *Journal
	// Progress, if not nil, is called with the number of finished cells, from several goroutines.
	Progress func(done int)
}

// Do runs all cells that are not in the journal. Do returns the outcomes in grid order, and the number of cells that
// it ran. A failed cell does not stop the other cells.
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

// Journal is a file of outcomes, one per line, with which an interrupted sweep continues. A nil Journal stores
// nothing.
type Journal struct {
	file    *os.File
	head    []byte // line that the file of a shard begins with; nil: none
	writing sync.Mutex
	reports map[string]json.RawMessage
}

// OpenJournal opens or creates a journal. OpenJournal drops an incomplete last line.
func OpenJournal(path string) (*Journal, error) { return openJournal(path, nil) }

// openJournal opens or creates a journal with the first line head.
func openJournal(path string, head []byte) (*Journal, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	j := &Journal{file: f, head: head, reports: map[string]json.RawMessage{}}
	if err := j.read(path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// read reads all complete lines and removes an incomplete last line.
func (j *Journal) read(path string) error {
	text, err := io.ReadAll(j.file)
	if err != nil {
		return err
	}
	lines, begun := bytes.CutPrefix(text, j.head)
	if !begun && !bytes.HasPrefix(j.head, text) {
		return fmt.Errorf("%s: is not a file of this shard, with these settings, traces and this program", path)
	}
	if !begun { // the file is new, or its first line was incomplete
		if err := os.Truncate(path, 0); err != nil {
			return err
		}
		_, err = j.file.Write(j.head)
		return err
	}
	end, err := readOutcomes(path, lines, 1+bytes.Count(j.head, []byte{'\n'}), func(o *Outcome) {
		if o.Report != nil {
			j.reports[o.Key] = o.Report
		}
	})
	if err != nil || end == len(lines) {
		return err
	}
	return os.Truncate(path, int64(len(j.head)+end))
}

// readOutcomes calls take for the complete lines of a text, which begins at line n of a file, and returns their
// length.
func readOutcomes(path string, text []byte, n int, take func(*Outcome)) (end int, err error) {
	for ; ; n++ {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		if !whole {
			return end, nil
		}
		text = rest
		var o Outcome
		if err := json.Unmarshal(line, &o); err != nil || len(o.Key) != 64 {
			return 0, fmt.Errorf("%s:%d: not the outcome of a cell, expected the journal of a sweep", path, n)
		}
		end += len(line) + 1
		take(&o)
	}
}

// Report returns the report of a task that the journal contained when it was opened.
func (j *Journal) Report(key string) (json.RawMessage, bool) {
	if j == nil {
		return nil, false
	}
	r, ok := j.reports[key]
	return r, ok
}

// Add writes an outcome. Outcomes without a report are written only to files of shards, so that their cells run
// again. Several goroutines may call Add.
func (j *Journal) Add(o *Outcome) error {
	if j == nil || o.Report == nil && j.head == nil {
		return nil
	}
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	j.writing.Lock()
	defer j.writing.Unlock()
	_, err = j.file.Write(append(line, '\n'))
	return err
}

// Close closes the file.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	return j.file.Close()
}
