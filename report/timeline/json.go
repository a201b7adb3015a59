package timeline

import (
	"io"
	"math"
	"strconv"

	"github.com/replay-llm/replay/sim"
)

// encoder writes trace events as JSON, one per line. All texts are of this
// package: nothing needs escapes.
//
// There are many events, so what is always the same in them is put together
// once, in pieces that reach up to the next number.
type encoder struct {
	out   io.Writer
	buf   []byte // has room for an event
	err   error
	first bool // nothing has been written to the list yet

	lanes  [3][7]piece // ends of a lane's events, by moment and part
	arrows [2][3]piece // ends of an arrow's events, by kind and end
	fixed
}

// flushBytes is how much is gathered before it is written, eventBytes more than
// any event takes.
const (
	flushBytes = 1 << 18
	eventBytes = 1 << 12
)

func newEncoder(out io.Writer) encoder {
	e := encoder{out: out, buf: make([]byte, 0, flushBytes+eventBytes), first: true, fixed: newFixed()}
	for m := range e.lanes {
		for p := range e.lanes[m] {
			e.lanes[m][p] = laneEnd(moment(m), part(p))
		}
	}
	for a := range e.arrows {
		for m := range e.arrows[a] {
			e.arrows[a][m] = arrowEnd(arrow(a), end(m))
		}
	}
	e.text(`{"displayTimeUnit":"ms","traceEvents":[`)
	return e
}

func (e *encoder) close() error {
	e.text("\n]}\n")
	e.flush()
	return e.err
}

func (e *encoder) flush() {
	if e.err == nil {
		_, e.err = e.out.Write(e.buf)
	}
	e.buf = e.buf[:0]
}

// done takes the buffer back after an event.
func (e *encoder) done(b []byte) {
	e.buf = b
	if len(b) >= flushBytes {
		e.flush()
	}
}

func (e *encoder) text(s string) { e.buf = append(e.buf, s...) }

// nanos is an instant in whole ns, so that a slice ends where the next begins.
func nanos(t sim.Time) int64 { return int64(math.RoundToEven(float64(t) * 1e6)) }

// slice begins a slice of a track; its name and arguments follow.
func (e *encoder) slice(b []byte, t *track, from, to sim.Time) []byte {
	start := nanos(from)
	b = instant(put(b, &t.slice), start)
	return instant(put(b, &e.dur), nanos(to)-start)
}

// title names a slice of passes, and begins its arguments.
func (e *encoder) title(b []byte, s *slice) []byte {
	switch {
	case s.prompt > 0 && s.received:
		b = integer(put(b, &e.receive), s.prompt)
	case s.prompt > 0:
		b = integer(put(b, &e.prefill), s.prompt)
		if s.tokens > 0 {
			b = integer(put(b, &e.alsoDecode), s.tokens)
		}
	default:
		b = integer(put(b, &e.decode), s.tokens)
	}
	if s.passes > 1 {
		b = integer(put(b, &e.times), s.passes)
	}
	return integer(put(b, &e.passes), s.passes)
}

// counter writes a point of a counter whose event begins with head, and its two
// values.
func (e *encoder) counter(head *piece, keys *[2]piece, at sim.Time, x, y int) {
	b := instant(put(e.buf, head), nanos(at))
	b = integer(put(b, &keys[0]), x)
	b = integer(put(b, &keys[1]), y)
	e.done(put(b, &e.end))
}

// flow writes an end of an arrow, or a step of it, at the slice that begins at
// an instant.
func (e *encoder) flow(m end, a arrow, id sim.RequestID, at sim.Time, t *track) {
	b := instant(put(e.buf, &t.flow), nanos(at))
	b = integer(put(b, &e.id), int(id)+1)
	e.done(put(b, &e.arrows[a][m]))
}

// lane writes a part of a request's lane.
func (e *encoder) lane(id sim.RequestID, p part, from, to sim.Time) {
	e.asynchronous(begins, id, p, from)
	e.asynchronous(ends, id, p, to)
}

// mark writes an instant on a request's lane.
func (e *encoder) mark(id sim.RequestID, p part, at sim.Time) { e.asynchronous(happens, id, p, at) }

func (e *encoder) asynchronous(m moment, id sim.RequestID, p part, at sim.Time) {
	b := instant(put(e.buf, &e.request), nanos(at))
	b = integer(put(b, &e.local), int(id)+1)
	b = put(b, &e.lanes[m][p])
	if p == whole {
		b = put(integer(b, int(id)), &e.quote)
	}
	e.done(b)
}

// process names a group of tracks and says where it stands.
func (e *encoder) process(pid, order int64, name string) {
	e.metadata("process_name", pid, 0)
	e.text(`"name":"` + name + `"}}`)
	e.metadata("process_sort_index", pid, 0)
	e.text(`"sort_index":` + strconv.FormatInt(order, 10) + "}}")
}

// thread names a track.
func (e *encoder) thread(pid, tid int64, name string) {
	e.metadata("thread_name", pid, tid)
	e.text(`"name":"` + name + `"}}`)
}

// metadata begins an event that tells of a track, up to what is told. The first
// event of all is one of these.
func (e *encoder) metadata(name string, pid, tid int64) {
	e.done(e.buf)
	if !e.first {
		e.text(",")
	}
	e.first = false
	e.text("\n{" + `"ph":"M","pid":` + strconv.FormatInt(pid, 10) + `,"tid":` + strconv.FormatInt(tid, 10) + `,"name":"` + name + `","args":{`)
}
