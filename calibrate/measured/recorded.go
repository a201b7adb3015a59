package measured

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/collector"
)

// recordedName and tracedName are files that replay drive and replay record write for a run.
const (
	recordedName = "measured.jsonl"
	tracedName   = "trace.jsonl"
)

// recordedRow holds the necessary fields of a line of measured.jsonl.
type recordedRow struct {
	ID      identifier `json:"request_id"`
	Status  string     `json:"status"`
	Server  string     `json:"server"`
	Input   int        `json:"input_toks"`
	Output  int        `json:"output_toks"`
	Cached  *int       `json:"cached_toks"`
	Due     *float64   `json:"due_time"`
	Arrival *float64   `json:"arrival_time"`
	First   *float64   `json:"first_token_ts"`
	Last    *float64   `json:"last_token_ts"`
	Gaps    []float64  `json:"gaps_s"`
}

// readRecorded reads the requests and prompts of a run that replay drive or replay record wrote. Failed or cancelled
// requests count with the tokens they received.
func (m *Run) readRecorded(dir string) error {
	path := filepath.Join(dir, recordedName)
	var served []bool
	err := readLines(path, func(_ int, text []byte) error {
		var x recordedRow
		if err := json.Unmarshal(text, &x); err != nil {
			return err
		}
		if x.Status != "ok" {
			served = append(served, m.addCut(x.cut()))
			return nil
		}
		if x.Due != nil && x.Arrival != nil {
			m.late = append(m.late, max(0, 1000*(*x.Arrival-*x.Due)))
		}
		served = append(served, true)
		r, err := x.request(len(m.Requests))
		m.Requests = append(m.Requests, r)
		return err
	})
	if err == nil {
		m.Requests, err = checkCount(path, m.Requests)
	}
	if err == nil && isFile(filepath.Join(dir, tracedName)) {
		m.Prompts, err = readTraced(dir, served)
	}
	return err
}

// lateMS is the largest delay in ms of a request that counts as sent on time.
const lateMS = 1

// Late returns how many of the requests that a client sent by a trace were late, their total number, and a text with
// the delays.
func (m *Run) Late() (n, of int, text string) {
	for _, ms := range m.late {
		if ms > lateMS {
			n++
		}
	}
	d := collector.Describe(m.late)
	return n, len(m.late), fmt.Sprintf("the client sent %d of %d requests more than %d ms late, by %.1f ms at p99 and %.1f ms at most", n, len(m.late), lateMS, d.P99, d.Max)
}

// cut returns a row of a request that was cut off.
func (x *recordedRow) cut() Request {
	r := Request{ID: x.ID, Input: x.Input, Output: x.Output, Arrival: math.NaN(), Queued: math.NaN(), Scheduled: math.NaN(), Server: x.Server}
	if x.Arrival != nil {
		r.Arrival = *x.Arrival
	}
	return r
}

// request returns the row as a request.
func (x *recordedRow) request(place int) (Request, error) {
	r := Request{
		ID: x.ID, Place: place, Input: x.Input, Output: x.Output, Queued: math.NaN(), Scheduled: math.NaN(), First: math.NaN(),
		Gaps: x.Gaps, Cached: x.Cached, Server: x.Server,
	}
	if x.Input < 1 || x.Output < 1 {
		return r, fmt.Errorf("input_toks is %d and output_toks %d, must be at least 1 of each", x.Input, x.Output)
	}
	if x.Arrival == nil || x.Last == nil {
		return r, errors.New("arrival_time or last_token_ts is missing, expected two instants in s")
	}
	r.Arrival, r.Last = *x.Arrival, *x.Last
	if x.First != nil {
		r.First = *x.First
	}
	if !(r.Last >= r.Arrival) || r.First < r.Arrival || r.First > r.Last {
		return r, fmt.Errorf("arrival, first and last token at %v, %v and %v s, must be in this order", r.Arrival, r.First, r.Last)
	}
	return r, nil
}

// readTraced reads the prompts of the requests that were served. If a run was killed, one of its files may have an
// additional line.
func readTraced(dir string, served []bool) (*Prompts, error) {
	meta := filepath.Join(dir, "meta.json")
	text, err := os.ReadFile(meta)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte("{}"), nil
	}
	if err != nil {
		return nil, err
	}
	var t tree
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("%s: %w", meta, err)
	}
	path := filepath.Join(dir, tracedName)
	all, err := ReadPrompts(path, t.number("trace_block_size", 512))
	if err != nil {
		return nil, err
	}
	p := &Prompts{BlockTokens: all.BlockTokens, Path: path}
	for i, ok := range served {
		switch {
		case !ok:
		case i >= len(all.IDs):
			return nil, fmt.Errorf("%s: %d lines, expected one for each of %s", path, len(all.IDs), recordedName)
		default:
			p.IDs, p.Lengths = append(p.IDs, all.IDs[i]), append(p.Lengths, all.Lengths[i])
		}
	}
	return p, nil
}
