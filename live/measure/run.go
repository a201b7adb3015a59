// Package measure stores the measurements of requests to a real server in a directory that replay validate and replay
// calibrate read.
//
// measured.jsonl has one line per request, in the order of their ends. trace.jsonl has their arrivals, lengths and
// blocks as a trace, in the same order. meta.json has the origin of the run.
//
// Read answer.go (the measurements of an answer), then run.go (the directory).
package measure

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/bell"
	"github.com/replay-llm/replay/internal/file"
	"github.com/replay-llm/replay/internal/json"
)

// Files of a run, and outcomes of requests.
const (
	RowsFile  = "measured.jsonl"
	TraceFile = "trace.jsonl"
	MetaFile  = "meta.json"

	StatusOK        = "ok"
	StatusCancelled = "cancelled" // the client cancelled the request
	StatusError     = "error"
)

// Row is the measurements of one request. Times are seconds since the start of the run, on the clock of the measuring
// process.
type Row struct {
	ID       string   `json:"request_id"`
	Line     int      `json:"line,omitempty"` // line in the driven trace
	Session  string   `json:"session_id,omitempty"`
	Status   string   `json:"status"`
	Code     int      `json:"http_status,omitempty"`
	Error    string   `json:"error,omitempty"`
	Server   string   `json:"server,omitempty"` // server that answered, if known
	Input    int      `json:"input_toks"`
	Output   int      `json:"output_toks"`
	Cached   *int     `json:"cached_toks,omitempty"` // cached prompt tokens; nil: not reported
	Counted  bool     `json:"counted,omitempty"`     // output_toks are pieces of the stream
	Streamed bool     `json:"streamed"`
	Due      *float64 `json:"due_time,omitempty"` // arrival in the trace
	Arrival  float64  `json:"arrival_time"`       // when the request was completely sent
	First    *float64 `json:"first_token_ts,omitempty"`
	Last     *float64 `json:"last_token_ts,omitempty"`
	// Gaps are the seconds between the pieces of the stream.
	Gaps []float64 `json:"gaps_s,omitempty"`

	// Blocks are the ids of the prompt's blocks, for the trace only.
	Blocks []uint64 `json:"-"`
	// Asked is the requested number of tokens. The trace uses Asked if there are no output tokens.
	Asked int `json:"-"`
}

// SetAnswer copies the measurements of an answer; start is the start of the run.
func (r *Row) SetAnswer(a *Answer, start time.Time) {
	since := func(t time.Time) *float64 { return new(roundMicro(t.Sub(start).Seconds())) }
	r.Output, r.Counted = a.Tokens()
	if a.Input >= 0 {
		r.Input = a.Input
	}
	if a.Cached >= 0 {
		r.Cached = &a.Cached
	}
	if !a.Last.IsZero() {
		r.Last = since(a.Last)
	}
	if !r.Streamed {
		return
	}
	if !a.First.IsZero() {
		r.First = since(a.First)
	}
	for _, g := range a.Gaps {
		r.Gaps = append(r.Gaps, roundMicro(g))
	}
}

// roundMicro rounds seconds to whole µs.
func roundMicro(s float64) float64 { return math.Round(s*1e6) / 1e6 }

// Options configure the files of a run.
type Options struct {
	BlockTokens int            // tokens per id of the trace
	Meta        map[string]any // content of meta.json
	// PartBytes and PartTime limit a part of the run, which is a separate directory part-N; 0: no parts.
	PartBytes int64
	PartTime  time.Duration
	// Warn, if not nil, receives the first error that prevents the writing of rows.
	Warn func(error)
}

// maxPending is the maximum number of bytes that wait to be written. Further rows are dropped and counted.
const maxPending = 64 << 20

// Run is a run that is being measured. Add is safe for concurrent use and does not wait for the disk.
type Run struct {
	dir   string
	o     Options
	Start time.Time

	mu          sync.Mutex
	rows, trace []byte // complete lines to write
	lost        int
	ending      chan struct{}
	wake        bell.Bell
	written     chan error

	part                int
	rowsFile, traceOut  *os.File
	rowsSize, traceSize int64 // size of the complete lines
	broken              error // the first error of a write
	opened              time.Time
	fresh               uint64 // the latest generated id of a block
}

// Create creates a directory and starts a run in it. Create fails if the directory has a run.
func Create(dir string, o Options) (*Run, error) {
	for _, old := range []string{RowsFile, "part-0001"} {
		switch _, err := file.Stat(filepath.Join(dir, old)); {
		case err == nil:
			return nil, fmt.Errorf("%s: has %s of another run in it, must be a new directory", dir, old)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	r := &Run{dir: dir, o: o, Start: time.Now(), ending: make(chan struct{}), wake: bell.New(), written: make(chan error, 1)}
	r.fresh = 1 << 52
	if err := r.openPart(); err != nil {
		return nil, err
	}
	go func() {
		r.written <- r.writeAll()
	}()
	return r, nil
}

// Since returns the seconds from the start of the run to t.
func (r *Run) Since(t time.Time) float64 { return roundMicro(t.Sub(r.Start).Seconds()) }

// Add adds a finished request.
func (r *Run) Add(row *Row) {
	text, err := json.Marshal(row)
	if err != nil {
		panic(fmt.Sprintf("a row cannot be written: %v", err)) // numbers are finite
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rows)+len(r.trace) > maxPending {
		r.lost++
		return
	}
	r.rows = append(append(r.rows, text...), '\n')
	r.appendTrace(row)
	r.wake.Ring()
}

// appendTrace appends a request as a line of a Mooncake trace. Tokens after the known blocks get unique blocks.
// Blocks after the end of the prompt are dropped.
func (r *Run) appendTrace(row *Row) {
	input, output := max(row.Input, 1), row.Output
	if output == 0 {
		output = max(row.Asked, 1)
	}
	b := append(r.trace, `{"timestamp":`...)
	b = strconv.AppendFloat(b, math.Round(row.Arrival*1e6)/1e3, 'f', -1, 64)
	b = strconv.AppendInt(append(b, `,"input_length":`...), int64(input), 10)
	b = strconv.AppendInt(append(b, `,"output_length":`...), int64(output), 10)
	b = append(b, `,"hash_ids":[`...)
	for i := range (input + r.o.BlockTokens - 1) / r.o.BlockTokens {
		if i > 0 {
			b = append(b, ',')
		}
		if i < len(row.Blocks) {
			b = strconv.AppendUint(b, row.Blocks[i], 10)
		} else {
			r.fresh++
			b = strconv.AppendUint(b, r.fresh, 10)
		}
	}
	r.trace = append(b, "]}\n"...)
}

// writeDelay is how long rows are collected before a write.
const writeDelay = 200 * time.Millisecond

// writeAll writes the collected lines until the run ends. writeAll writes only complete lines.
func (r *Run) writeAll() error {
	var rows, trace []byte
	for open := true; open; {
		select {
		case <-r.wake:
			select {
			case <-time.After(writeDelay):
			case <-r.ending:
			}
		case <-r.ending:
			open = false
		}
		r.mu.Lock()
		rows, r.rows = r.rows, rows[:0]
		trace, r.trace = r.trace, trace[:0]
		r.mu.Unlock()
		if err := r.writeLines(rows, trace); err != nil {
			r.loseLines(rows, err)
		}
	}
	return errors.Join(r.broken, r.rowsFile.Close(), r.traceOut.Close())
}

// loseLines counts requests that could not be written. Later writes may succeed again.
func (r *Run) loseLines(rows []byte, err error) {
	r.mu.Lock()
	r.lost += bytes.Count(rows, []byte{'\n'})
	r.mu.Unlock()
	if r.broken == nil && r.o.Warn != nil {
		r.o.Warn(err)
	}
	r.broken = cmp.Or(r.broken, err)
}

func (r *Run) writeLines(rows, trace []byte) error {
	if len(rows) == 0 {
		return nil
	}
	if r.isPartFull() {
		if err := r.openPart(); err != nil {
			return err
		}
	}
	if err := writeWhole(r.rowsFile, r.rowsSize, rows); err != nil {
		return err
	}
	if err := writeWhole(r.traceOut, r.traceSize, trace); err != nil {
		return errors.Join(err, r.rowsFile.Truncate(r.rowsSize))
	}
	r.rowsSize += int64(len(rows))
	r.traceSize += int64(len(trace))
	return nil
}

// writeWhole writes lines at the end of a file of this size. If the write fails, writeWhole removes the partial
// lines.
func writeWhole(f *os.File, size int64, lines []byte) error {
	_, err := f.WriteAt(lines, size)
	if err != nil {
		err = errors.Join(err, f.Truncate(size))
	}
	return err
}

// isPartFull reports whether the next request belongs to a new part.
func (r *Run) isPartFull() bool {
	return r.o.PartBytes > 0 && r.rowsSize+r.traceSize >= r.o.PartBytes || r.o.PartTime > 0 && r.rowsSize > 0 && time.Since(r.opened) >= r.o.PartTime
}

// openPart opens the files of the next part, or of a run without parts.
func (r *Run) openPart() error {
	dir := r.dir
	if r.o.PartBytes > 0 || r.o.PartTime > 0 {
		dir = filepath.Join(r.dir, fmt.Sprintf("part-%04d", r.part+1))
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	meta := maps.Clone(r.o.Meta)
	meta["started"] = r.Start.UTC().Format(time.RFC3339Nano)
	meta["trace_block_size"] = r.o.BlockTokens
	text, err := json.MarshalIndent(meta, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, MetaFile), append(text, '\n'), 0o666); err != nil {
		return err
	}
	rows, err := os.Create(filepath.Join(dir, RowsFile))
	if err != nil {
		return err
	}
	trace, err := os.Create(filepath.Join(dir, TraceFile))
	if err != nil {
		return errors.Join(err, rows.Close())
	}
	if r.part++; r.part > 1 {
		err = errors.Join(r.rowsFile.Close(), r.traceOut.Close())
	}
	r.rowsFile, r.traceOut, r.rowsSize, r.traceSize, r.opened = rows, trace, 0, 0, time.Now()
	return err
}

// Close writes the remaining lines. Close returns the first error of all writes.
func (r *Run) Close() error {
	close(r.ending)
	err := <-r.written
	if r.lost > 0 {
		err = errors.Join(err, fmt.Errorf("%s: %d requests are missing, which could not be written or came faster than that", r.dir, r.lost))
	}
	return err
}
