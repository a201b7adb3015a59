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
	e.writeText(`{"displayTimeUnit":"ms","traceEvents":[`)
	return e
}

func (e *encoder) closeFile() error {
	e.writeText("\n]}\n")
	e.flushBuffer()
	return e.err
}

func (e *encoder) flushBuffer() {
	if e.err == nil {
		_, e.err = e.out.Write(e.buf)
	}
	e.buf = e.buf[:0]
}

// endEvent takes the buffer back after an event.
func (e *encoder) endEvent(b []byte) {
	e.buf = b
	if len(b) >= flushBytes {
		e.flushBuffer()
	}
}

func (e *encoder) writeText(s string) { e.buf = append(e.buf, s...) }

// toNanos is an instant in whole ns, so that a slice ends where the next begins.
func toNanos(t sim.Time) int64 { return int64(math.RoundToEven(float64(t) * 1e6)) }

// beginSlice begins a slice of a track; its name and arguments follow.
func (e *encoder) beginSlice(b []byte, t *track, from, to sim.Time) []byte {
	start := toNanos(from)
	b = appendInstant(putPiece(b, &t.slice), start)
	return appendInstant(putPiece(b, &e.dur), toNanos(to)-start)
}

// beginPassSlice names a slice of passes, and begins its arguments.
func (e *encoder) beginPassSlice(b []byte, s *slice) []byte {
	switch {
	case s.prompt > 0 && s.received:
		b = appendInteger(putPiece(b, &e.receive), s.prompt)
	case s.prompt > 0:
		b = appendInteger(putPiece(b, &e.prefill), s.prompt)
		if s.tokens > 0 {
			b = appendInteger(putPiece(b, &e.alsoDecode), s.tokens)
		}
	default:
		b = appendInteger(putPiece(b, &e.decode), s.tokens)
	}
	if s.passes > 1 {
		b = appendInteger(putPiece(b, &e.times), s.passes)
	}
	return appendInteger(putPiece(b, &e.passes), s.passes)
}

// writeCounter writes a point of a counter whose event begins with head, and its two
// values.
func (e *encoder) writeCounter(head *piece, keys *[2]piece, at sim.Time, x, y int) {
	b := appendInstant(putPiece(e.buf, head), toNanos(at))
	b = appendInteger(putPiece(b, &keys[0]), x)
	b = appendInteger(putPiece(b, &keys[1]), y)
	e.endEvent(putPiece(b, &e.end))
}

// writeFlow writes an end of an arrow, or a step of it, at the slice that begins at
// an instant.
func (e *encoder) writeFlow(m end, a arrow, id sim.RequestID, at sim.Time, t *track) {
	b := appendInstant(putPiece(e.buf, &t.flow), toNanos(at))
	b = appendInteger(putPiece(b, &e.id), int(id)+1)
	e.endEvent(putPiece(b, &e.arrows[a][m]))
}

// writeLanePart writes a part of a request's lane.
func (e *encoder) writeLanePart(id sim.RequestID, p part, from, to sim.Time) {
	e.beginAsync(begins, id, p, from)
	e.beginAsync(ends, id, p, to)
}

// writeInstant writes an instant on a request's lane.
func (e *encoder) writeInstant(id sim.RequestID, p part, at sim.Time) {
	e.beginAsync(happens, id, p, at)
}

func (e *encoder) beginAsync(m moment, id sim.RequestID, p part, at sim.Time) {
	b := appendInstant(putPiece(e.buf, &e.request), toNanos(at))
	b = appendInteger(putPiece(b, &e.local), int(id)+1)
	b = putPiece(b, &e.lanes[m][p])
	if p == whole {
		b = putPiece(appendInteger(b, int(id)), &e.quote)
	}
	e.endEvent(b)
}

// writeProcess names a group of tracks and gives its position.
func (e *encoder) writeProcess(pid, order int64, name string) {
	e.beginMetadata("process_name", pid, 0)
	e.writeText(`"name":"` + name + `"}}`)
	e.beginMetadata("process_sort_index", pid, 0)
	e.writeText(`"sort_index":` + strconv.FormatInt(order, 10) + "}}")
}

// writeThread names a track.
func (e *encoder) writeThread(pid, tid int64, name string) {
	e.beginMetadata("thread_name", pid, tid)
	e.writeText(`"name":"` + name + `"}}`)
}

// beginMetadata begins an event about a track, up to its value. The first
// event of all is one of these.
func (e *encoder) beginMetadata(name string, pid, tid int64) {
	e.endEvent(e.buf)
	if !e.first {
		e.writeText(",")
	}
	e.first = false
	e.writeText("\n{" + `"ph":"M","pid":` + strconv.FormatInt(pid, 10) + `,"tid":` + strconv.FormatInt(tid, 10) + `,"name":"` + name + `","args":{`)
}
