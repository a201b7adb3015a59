package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// Journal is a file of outcomes, one per line, that a sweep takes up again after
// it was interrupted. A nil Journal remembers nothing.
type Journal struct {
	file    *os.File
	writing sync.Mutex
	reports map[string]json.RawMessage
}

// OpenJournal opens a journal, or begins one. A last line that was cut off is
// forgotten.
func OpenJournal(path string) (*Journal, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	j := &Journal{file: f, reports: map[string]json.RawMessage{}}
	if err := j.read(path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// read takes in all whole lines and goes to the end of the last of them.
func (j *Journal) read(path string) error {
	text, err := io.ReadAll(j.file)
	if err != nil {
		return err
	}
	end := int64(0)
	for n := 1; ; n++ {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		if !whole {
			break
		}
		text = rest
		var o Outcome
		if err := json.Unmarshal(line, &o); err != nil || len(o.Key) != 64 {
			return fmt.Errorf("%s:%d: not the outcome of a cell, want the journal of a sweep", path, n)
		}
		end += int64(len(line)) + 1
		if o.Report != nil {
			j.reports[o.Key] = o.Report
		}
	}
	if err := j.file.Truncate(end); err != nil {
		return err
	}
	_, err = j.file.Seek(end, io.SeekStart)
	return err
}

// Report returns the report of a task that the journal had when it was opened.
func (j *Journal) Report(key string) (json.RawMessage, bool) {
	if j == nil {
		return nil, false
	}
	r, ok := j.reports[key]
	return r, ok
}

// Add writes an outcome; those without a report are to be tried again, and are
// not written. Several goroutines may call it.
func (j *Journal) Add(o *Outcome) error {
	if j == nil || o.Report == nil {
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
