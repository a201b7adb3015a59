package formats

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/sim"
)

// Ordered returns the requests of a stream in order of arrival. Ordered implements loadgen.Source. Ordered keeps only
// the rows that are within the window of disorder.
type Ordered struct {
	s      *Stream
	window float64 // ms by which a row may arrive before an earlier row
	record Record
	peeked bool    // record has the first row, which was not processed yet
	seen   float64 // latest arrival so far
	read   int32   // number of rows read
	ended  bool
	ids    privateIDs
	names  classNames

	first   scan.Stamp // earliest arrival; valid if started
	started bool
	waiting heap.Heap[float64, int32, *waitingRow]
	unused  []*waitingRow
}

// waitingRow is a row that later rows may precede in time.
type waitingRow struct {
	loadgen.Incoming
	when    scan.Stamp // arrival, valid if stamped
	stamped bool
}

// Source returns the requests of s in order of arrival. Nothing of s may have been read.
//
// If the first row belongs to a session or a graph, all rows are read into a temporary file, because a row may wait
// for any other row. Otherwise no rows are kept, and a row may arrive up to window ms before an earlier row.
func (s *Stream) Source(window float64) (loadgen.Source, error) {
	switch {
	case s.Untimed:
		return nil, fmt.Errorf("%s: the format has no timestamps, expected one that has with a trace that is not kept", s.Name)
	case !(window >= 0) || math.IsInf(window, 0):
		return nil, fmt.Errorf("rows may come %v ms before earlier ones, must be a finite number >= 0", window)
	}
	o := &Ordered{s: s, window: window, seen: math.Inf(-1), ids: privateIDs{s: s}}
	err := s.Next(&o.record)
	switch {
	case err == io.EOF:
		return nil, &loadgen.SyntaxError{Name: s.Name, Msg: "no requests in the file, must have at least one"}
	case err == nil && o.record.Name != "":
		return s.spillGraph(&o.record)
	case err == nil && o.record.Session != nil:
		return s.spill(&o.record)
	case err == nil && o.record.Class != nil:
		o.peeked, o.names.known = true, true
		return o.spill()
	}
	if o.peeked = err == nil; err != nil {
		return nil, err
	}
	if runtime.GOMAXPROCS(0) > 1 {
		return readAhead(o), nil
	}
	return o, nil
}

// Next reads the next request into in. Next returns io.EOF after the last request.
func (o *Ordered) Next(in *loadgen.Incoming) error {
	for !o.ended && (len(o.waiting) == 0 || o.waiting[0].Key > o.seen-o.window) {
		switch err := o.readRow(); {
		case err == io.EOF:
			o.ended = true
		case err != nil:
			return err
		}
	}
	if len(o.waiting) == 0 {
		return io.EOF
	}
	x := o.waiting.Pop().Value
	if x.stamped && !o.started {
		o.first, o.started = x.when, true
	}
	if x.stamped {
		x.At = sim.Time(x.when.Since(o.first))
	}
	*in, x.IDs = x.Incoming, in.IDs
	o.unused = append(o.unused, x)
	return nil
}

// readRow adds the next row to the waiting rows.
func (o *Ordered) readRow() error {
	r := &o.record
	if !o.peeked {
		if err := o.s.Next(r); err != nil {
			return err
		}
	}
	o.peeked = false
	if err := o.check(r); err != nil {
		return err
	}
	o.seen = max(o.seen, r.At)
	if err := o.ids.nameBlocks(r); err != nil {
		return err
	}
	x := new(waitingRow)
	if n := len(o.unused); n > 0 {
		x, o.unused = o.unused[n-1], o.unused[:n-1]
	}
	x.Incoming = loadgen.Incoming{
		At: sim.Time(r.At), IDs: append(x.IDs[:0], r.IDs...), Input: int32(r.Input), Output: int32(r.Output),
		Line: int32(r.Line), Priority: r.Priority, Class: o.names.place(r.Class), Session: o.read, Turns: 1,
	}
	x.when, x.stamped = r.When, r.Stamped
	o.waiting.Push(r.At, o.read, x)
	o.read++
	return nil
}

// check returns an error for a row that cannot be replayed without keeping other rows.
func (o *Ordered) check(r *Record) error {
	switch {
	case o.read == math.MaxInt32:
		return o.s.RowError(r, "more than %d requests, must be no more", math.MaxInt32)
	case r.Session != nil:
		return o.s.RowError(r, "is of a session, and the first row is not: use sessions from the first row on, or the replay without --stream")
	case r.Class != nil && !o.names.known:
		return o.s.RowError(r, "is of a class, and the first row is not; must be a class on the first row, or the replay without --stream")
	case r.HasDelay && r.Delay != 0:
		return o.s.RowError(r, "delay is %v on the first turn of a session, must be 0 or none", r.Delay)
	case !r.HasAt:
		return o.s.RowError(r, "session %q has no timestamp, which trace mode needs", fmt.Sprint(loadgen.RequestPrefix, r.Line))
	case math.IsNaN(r.At) || math.IsInf(r.At, 0):
		return o.s.RowError(r, "arrival is %v, must be a finite number", r.At)
	case r.At < o.seen-o.window:
		return o.s.RowError(r, "arrives at %s ms, %s ms before a row above it, must be at most %s (--stream-window)", formatMS(r.At), formatMS(o.seen-r.At), formatMS(o.window))
	}
	return o.s.checkAlone(r)
}

// checkAlone returns an error for a row of a graph after rows without a graph.
func (s *Stream) checkAlone(r *Record) error {
	if r.Name == "" {
		return nil
	}
	return s.RowError(r, "request %q is of a graph, and the first row is not: replay the trace without --stream", excerpt.Cut(r.Name))
}

// classNames assigns numbers to classes in order of appearance.
type classNames struct {
	known bool // rows may have a class
	w     loadgen.Workload
}

// place returns the number of a class. name is nil for a row without a class.
func (c *classNames) place(name []byte) int32 {
	switch {
	case name == nil && c.w.Classes == nil:
		return 0
	case name == nil:
		return c.w.AddClass(loadgen.DefaultClass)
	}
	return c.w.AddClass(string(name))
}

// Classes returns the names of the classes.
func (o *Ordered) Classes() []string { return o.names.w.Classes }

// formatMS formats ms without an exponent.
func formatMS(ms float64) string { return strconv.FormatFloat(ms, 'f', -1, 64) }

// privateIDs generates block ids.
type privateIDs struct {
	s     *Stream
	fresh uint64 // number of generated ids
}

// nameBlocks generates ids for blocks without ids. No prompt shares these blocks.
func (o *privateIDs) nameBlocks(r *Record) error {
	if o.s.Shape.Raw {
		return nil
	}
	if r.Private {
		r.IDs = r.IDs[:0]
	}
	for _, id := range r.IDs {
		if id > math.MaxInt64 {
			return o.s.RowError(r, "hash id is %d, must be at most %d with a trace that is not kept", id, math.MaxInt64)
		}
	}
	for missing := (r.Input+o.s.Block-1)/o.s.Block - len(r.IDs); missing > 0 && (r.Private || r.Full); missing-- {
		r.IDs = append(r.IDs, ^o.fresh)
		o.fresh++
	}
	return nil
}

// MultiTurn returns false, because rows with sessions are rejected.
func (o *Ordered) MultiTurn() bool { return false }

// Later returns io.EOF, because no request waits for another request.
func (o *Ordered) Later(int64, *loadgen.Incoming) error { return io.EOF }

// SessionID returns the name of the session of the request in a line.
func (o *Ordered) SessionID(_, line int32) (string, error) {
	return loadgen.RequestPrefix + strconv.Itoa(int(line)), nil
}

// Dropped returns the counts of dropped rows so far.
func (o *Ordered) Dropped() loadgen.Dropped { return o.s.Dropped() }

// Close closes the file.
func (o *Ordered) Close() error { return o.s.Close() }
