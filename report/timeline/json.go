package timeline

import (
	"io"
	"math"
	"strconv"

	"github.com/replay-llm/replay/sim"
)

// encoder writes trace events as JSON, one per line. All texts are from this package and need no escapes.
type encoder struct {
	out   io.Writer
	buf   []byte // has room for an event
	err   error
	first bool // nothing has been written to the list yet
}

// flushBytes is the buffer size at which events are written. eventBytes is more than the size of any event.
const (
	flushBytes = 1 << 18
	eventBytes = 1 << 12
)

func newEncoder(out io.Writer) encoder {
	e := encoder{out: out, buf: make([]byte, 0, flushBytes+eventBytes), first: true}
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

// endEvent stores the buffer after an event.
func (e *encoder) endEvent(b []byte) {
	e.buf = b
	if len(b) >= flushBytes {
		e.flushBuffer()
	}
}

func (e *encoder) writeText(s string) { e.buf = append(e.buf, s...) }

// toNanos returns a time in whole ns, so that a slice ends where the next slice begins.
func toNanos(t sim.Time) int64 { return int64(math.RoundToEven(float64(t) * 1e6)) }

// appendNumber appends a text and a number.
func appendNumber(b []byte, before string, n int) []byte {
	return strconv.AppendInt(append(b, before...), int64(n), 10)
}

// appendFloat appends a text and a number. Whole numbers have no decimal point; other numbers have the shortest form
// of strconv.
func appendFloat(b []byte, before string, v float64) []byte {
	if v >= 0 && v < 1<<53 && v == math.Trunc(v) {
		return appendNumber(b, before, int(v))
	}
	return strconv.AppendFloat(append(b, before...), v, 'g', -1, 64)
}

// appendInstant appends a text, and ns as microseconds with three decimal places.
func appendInstant(b []byte, before string, ns int64) []byte {
	b = append(b, before...)
	if ns < 0 {
		b, ns = append(b, '-'), -ns
	}
	b = strconv.AppendInt(b, ns/1000, 10)
	return append(b, '.', byte('0'+ns/100%10), byte('0'+ns/10%10), byte('0'+ns%10))
}

// beginSlice begins a slice of a track. The caller appends its name and arguments.
func (e *encoder) beginSlice(t *track, from, to sim.Time) []byte {
	start := toNanos(from)
	b := appendInstant(e.buf, t.slice, start)
	return appendInstant(b, `,"dur":`, toNanos(to)-start)
}

// nameSlice appends the name of a slice of passes, and begins its arguments.
func nameSlice(b []byte, s *slice) []byte {
	switch {
	case s.prompt > 0 && s.received:
		b = appendNumber(b, `,"name":"receive `, s.prompt)
	case s.prompt > 0:
		b = appendNumber(b, `,"name":"prefill `, s.prompt)
		if s.tokens > 0 {
			b = appendNumber(b, `, decode `, s.tokens)
		}
	default:
		b = appendNumber(b, `,"name":"decode `, s.tokens)
	}
	if s.passes > 1 {
		b = appendNumber(b, ` x`, s.passes)
	}
	return appendNumber(b, `","args":{"passes":`, s.passes)
}

// writeBlocks writes a value of the counter of a worker's blocks.
func (e *encoder) writeBlocks(t *track, at sim.Time, held, cached int) {
	b := appendInstant(e.buf, t.blocks, toNanos(at))
	b = appendNumber(b, `,"args":{"held":`, held)
	b = appendNumber(b, `,"cached":`, cached)
	e.endEvent(append(b, "}}"...))
}

// writeRequests writes a value of the counter of a worker's requests.
func (e *encoder) writeRequests(t *track, at sim.Time, running, waiting int) {
	b := appendInstant(e.buf, t.requests, toNanos(at))
	b = appendNumber(b, `,"args":{"running":`, running)
	b = appendNumber(b, `,"waiting":`, waiting)
	e.endEvent(append(b, "}}"...))
}

// Ends and steps of arrows between slices.
const (
	requestStarts   = `,"ph":"s","cat":"request","name":"request"}`
	requestSteps    = `,"ph":"t","cat":"request","name":"request"}`
	requestFinishes = `,"ph":"f","cat":"request","name":"request"}`
	handoffStarts   = `,"ph":"s","cat":"handoff","name":"handoff"}`
	handoffFinishes = `,"ph":"f","cat":"handoff","name":"handoff"}`
)

// writeFlow writes an end or a step of an arrow, at the slice that begins at the given time.
func (e *encoder) writeFlow(end string, id sim.RequestID, at sim.Time, t *track) {
	b := appendInstant(e.buf, t.flow, toNanos(at))
	b = appendNumber(b, `,"id":`, int(id)+1)
	e.endEvent(append(b, end...))
}

// Events of a part of a request's lane.
const (
	begins  = `"},"ph":"b","name":"`
	ends    = `"},"ph":"e","name":"`
	happens = `"},"ph":"n","name":"`
)

// Parts of a request's lane, and a mark on it.
const (
	whole         = "request " // from arrival to last token; a number follows
	wait          = `wait"}`
	prefill       = `prefill"}`
	decode        = `decode"}`
	waitForDecode = `wait for decode"}`
	transfer      = `KV transfer"}`
	losesPlace    = `loses its place"}`
)

// writeAsync writes an event of a part of a request's lane.
func (e *encoder) writeAsync(what string, id sim.RequestID, part string, at sim.Time) {
	b := appendInstant(e.buf, ",\n"+`{"tid":1,"cat":"request","pid":2,"ts":`, toNanos(at))
	b = appendNumber(b, `,"id2":{"local":"`, int(id)+1)
	b = append(append(b, what...), part...)
	if part == whole {
		b = append(strconv.AppendInt(b, int64(id), 10), `"}`...)
	}
	e.endEvent(b)
}

// writeProcess writes the name of a group of tracks, and its position.
func (e *encoder) writeProcess(pid, order int64, name string) {
	e.beginMetadata("process_name", pid, 0)
	e.writeText(`"name":"` + name + `"}}`)
	e.beginMetadata("process_sort_index", pid, 0)
	e.writeText(`"sort_index":` + strconv.FormatInt(order, 10) + "}}")
}

// writeThread writes the name of a track.
func (e *encoder) writeThread(pid, tid int64, name string) {
	e.beginMetadata("thread_name", pid, tid)
	e.writeText(`"name":"` + name + `"}}`)
}

// beginMetadata begins an event about a track, up to its value. The first event of a trace is always a metadata event.
func (e *encoder) beginMetadata(name string, pid, tid int64) {
	e.endEvent(e.buf)
	if !e.first {
		e.writeText(",")
	}
	e.first = false
	e.writeText("\n{" + `"ph":"M","pid":` + strconv.FormatInt(pid, 10) + `,"tid":` + strconv.FormatInt(tid, 10) + `,"name":"` + name + `","args":{`)
}
