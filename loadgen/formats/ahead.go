package formats

import (
	"sync"

	"github.com/replay-llm/replay/loadgen"
)

// ahead reads a source in another goroutine, a few batches in advance. ahead returns the same requests, errors and
// counts as the source. Sessions are not supported.
type ahead struct {
	loadgen.Source // for methods that do not read rows

	full, empty chan *batch // full batches to read from, and empty batches to fill
	filled      *batch      // batch that the goroutine fills
	now         *batch      // batch that Next reads from
	taken       int         // number of requests of now that Next has returned
	told        int         // number of notes of now that were reported
	warn        func(string)
	bad         func(error)
	stop        func()
	stopped     chan struct{}
}

// batchRows is the number of requests of a batch.
const batchRows = 256

// batch has consecutive requests of a source, and the error after the last request.
type batch struct {
	rows    [batchRows]loadgen.Incoming
	dropped [batchRows + 1]loadgen.Dropped // counts by the number of requests that Next has returned
	last    loadgen.Dropped                // counts after err
	count   int
	err     error // returned instead of the next request
	notes   []note
}

// note is a warning or the error of a skipped row. note is reported before the request with the index before.
type note struct {
	before  int
	warning string
	bad     error
}

// readAhead returns a source that reads o in a new goroutine until Close.
func readAhead(o *Ordered) *ahead {
	a := &ahead{Source: o, full: make(chan *batch, 3), empty: make(chan *batch, 4), stopped: make(chan struct{}), now: &batch{}}
	a.stop = sync.OnceFunc(func() { close(a.stopped) })
	said := &o.s.Options
	if a.warn = said.Warn; a.warn != nil {
		said.Warn = func(text string) {
			a.filled.notes = append(a.filled.notes, note{before: a.filled.count, warning: text})
		}
	}
	if a.bad = said.Bad; a.bad != nil {
		said.Bad = func(err error) { a.filled.notes = append(a.filled.notes, note{before: a.filled.count, bad: err}) }
	}
	a.now.dropped[0] = o.Dropped()
	for range cap(a.empty) {
		a.empty <- &batch{}
	}
	go func() {
		defer o.Close()
		a.fillBatches()
	}()
	return a
}

// fillBatches fills batches until the source ends or Close is called.
func (a *ahead) fillBatches() {
	for {
		var b *batch
		select {
		case b = <-a.empty:
		case <-a.stopped:
			return
		}
		a.filled = b
		b.fill(a.Source)
		select {
		case a.full <- b:
		case <-a.stopped:
			return
		}
		if b.err != nil {
			return
		}
	}
}

// fill reads requests until the batch is full or the source ends.
func (b *batch) fill(from loadgen.Source) {
	b.count, b.notes = 0, b.notes[:0]
	for b.err == nil && b.count < batchRows {
		b.dropped[b.count] = from.Dropped()
		if b.err = from.Next(&b.rows[b.count]); b.err == nil {
			b.count++
		}
	}
	if b.last = from.Dropped(); b.err == nil {
		b.dropped[b.count] = b.last
	}
}

// Next reads the next request into in. Next returns io.EOF after the last request.
func (a *ahead) Next(in *loadgen.Incoming) error {
	if a.taken == a.now.count && a.now.err == nil {
		if a.now.count > 0 {
			a.empty <- a.now
		}
		a.now, a.taken, a.told = <-a.full, 0, 0
	}
	a.passNotes()
	if a.taken == a.now.count {
		a.now.dropped[a.taken] = a.now.last
		return a.now.err
	}
	*in, a.now.rows[a.taken] = a.now.rows[a.taken], *in // the memory of in.IDs is reused
	a.taken++
	return nil
}

// passNotes reports the warnings and errors of skipped rows before the next request.
func (a *ahead) passNotes() {
	for ; a.told < len(a.now.notes) && a.now.notes[a.told].before <= a.taken; a.told++ {
		if n := &a.now.notes[a.told]; n.bad != nil {
			a.bad(n.bad)
		} else {
			a.warn(n.warning)
		}
	}
}

// Dropped returns the number of rows dropped before the next request.
func (a *ahead) Dropped() loadgen.Dropped { return a.now.dropped[a.taken] }

// Close stops the goroutine, which closes the source after the current read. Close does not wait for this, because a
// read from an idle pipe may block.
func (a *ahead) Close() error {
	a.stop()
	return nil
}
