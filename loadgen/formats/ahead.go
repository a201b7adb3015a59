package formats

import (
	"sync"

	"github.com/replay-llm/replay/loadgen"
)

// ahead is a source that another goroutine reads, a few batches before they are wanted. It gives the requests, the
// error and the counts that the source itself gives. Requests of sessions do not go with it.
type ahead struct {
	loadgen.Source // for what takes no reading

	full, empty chan *batch // empty holds batches to fill
	filled      *batch      // by the goroutine, now
	now         *batch      // that Next takes from
	taken       int         // requests of it
	told        int         // notes of it
	warn        func(string)
	bad         func(error)
	stop        func()
	stopped     chan struct{}
}

// batchRows is the number of requests that are handed over at once.
const batchRows = 256

// batch has requests of a source, in order, and what stood after the last of them.
type batch struct {
	rows    [batchRows]loadgen.Incoming
	dropped [batchRows + 1]loadgen.Dropped // by the number of requests that were taken
	last    loadgen.Dropped                // once err is known
	count   int
	err     error // in place of the next request
	notes   []note
}

// note is what the source said on the way to a request of a batch: a warning, or the error of a row that is skipped.
type note struct {
	before  int
	warning string
	bad     error
}

// readAhead returns a source that reads o in a goroutine of its own until it is closed.
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

// fillBatches fills batches until the source ends or Close stops it.
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

// fill reads as many requests as there is room for.
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

// Next fills in with the next request; io.EOF comes after the last.
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
	*in, a.now.rows[a.taken] = a.now.rows[a.taken], *in // whose slice is used again
	a.taken++
	return nil
}

// passNotes passes on what the source said on the way to the next request.
func (a *ahead) passNotes() {
	for ; a.told < len(a.now.notes) && a.now.notes[a.told].before <= a.taken; a.told++ {
		if n := &a.now.notes[a.told]; n.bad != nil {
			a.bad(n.bad)
		} else {
			a.warn(n.warning)
		}
	}
}

// Dropped counts the rows that stood before the next request and were left out.
func (a *ahead) Dropped() loadgen.Dropped { return a.now.dropped[a.taken] }

// Close lets the goroutine end and close the source, after the read that it may be in the middle of: of a pipe that
// nothing comes from this may last.
func (a *ahead) Close() error {
	a.stop()
	return nil
}
