package timeline

import (
	"io"
	"math"
	"strconv"

	"github.com/replay-llm/replay/sim"
)

// encoder writes trace events as JSON, one per line. There are many events, so
// their texts are in as few pieces as can be. All texts are of this package:
// nothing needs escapes.
type encoder struct {
	out   io.Writer
	buf   []byte
	err   error
	first bool // nothing has been written to the list yet
}

// flushBytes is how much is gathered before it is written.
const flushBytes = 1 << 18

func newEncoder(out io.Writer) encoder {
	e := encoder{out: out, buf: make([]byte, 0, flushBytes+4096), first: true}
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

// begin starts an event with its first members.
func (e *encoder) begin(head string) {
	switch {
	case e.first:
		e.text("\n{")
	default:
		e.text(",\n{")
	}
	e.first = false
	e.text(head)
}

// end completes an event with its last characters.
func (e *encoder) end(tail string) {
	e.text(tail)
	if len(e.buf) >= flushBytes {
		e.flush()
	}
}

func (e *encoder) text(s string) { e.buf = append(e.buf, s...) }

// integer writes a number behind its key, which has its punctuation.
func (e *encoder) integer(key string, n int64) {
	e.buf = append(e.buf, key...)
	if n >= 0 {
		e.digits(uint64(n))
		return
	}
	e.buf = strconv.AppendInt(e.buf, n, 10)
}

// digits writes a number.
func (e *encoder) digits(n uint64) {
	if n < 10 {
		e.buf = append(e.buf, byte('0'+n))
		return
	}
	var d [20]byte
	at := len(d)
	for n >= 100 {
		pair := n % 100 * 2
		n /= 100
		at -= 2
		d[at], d[at+1] = pairs[pair], pairs[pair+1]
	}
	at -= 2
	d[at], d[at+1] = pairs[n*2], pairs[n*2+1]
	if n < 10 {
		at++
	}
	e.buf = append(e.buf, d[at:]...)
}

// pairs are the numbers from 00 to 99.
const pairs = "00010203040506070809" + "10111213141516171819" + "20212223242526272829" + "30313233343536373839" + "40414243444546474849" +
	"50515253545556575859" + "60616263646566676869" + "70717273747576777879" + "80818283848586878889" + "90919293949596979899"

// float writes a number behind its key.
func (e *encoder) float(key string, v float64) {
	e.buf = append(e.buf, key...)
	if whole := uint64(v); v >= 0 && v < 1<<53 && float64(whole) == v {
		e.digits(whole)
		return
	}
	e.buf = strconv.AppendFloat(e.buf, v, 'g', -1, 64)
}

// at writes an instant behind its key: microseconds with three digits, which is
// whole ns.
func (e *encoder) at(key string, ns int64) {
	e.buf = append(e.buf, key...)
	us := uint64(ns) / 1000
	rest := uint64(ns) - us*1000
	e.digits(us)
	pair := rest % 100 * 2
	e.buf = append(e.buf, '.', byte('0'+rest/100), pairs[pair], pairs[pair+1])
}

// nanos is an instant in whole ns, so that a slice ends where the next begins.
func nanos(t sim.Time) int64 { return int64(math.RoundToEven(float64(t) * 1e6)) }

// slice begins a slice of a track; its name and arguments follow.
func (e *encoder) slice(t *track, from, to sim.Time) {
	e.begin(t.slice)
	start := nanos(from)
	e.at(`,"ts":`, start)
	e.at(`,"dur":`, nanos(to)-start)
}

// title names a slice of passes, and begins its arguments.
func (e *encoder) title(s *slice) {
	switch {
	case s.prompt > 0:
		e.integer(`,"name":"prefill `, int64(s.prompt))
		if s.tokens > 0 {
			e.integer(", decode ", int64(s.tokens))
		}
	default:
		e.integer(`,"name":"decode `, int64(s.tokens))
	}
	if s.passes > 1 {
		e.integer(" x", int64(s.passes))
	}
	e.integer(`","args":{"passes":`, int64(s.passes))
}

// counter begins a point of a counter whose event begins with head; its values
// follow.
func (e *encoder) counter(head string, at sim.Time) {
	e.begin(head)
	e.at(`,"ts":`, nanos(at))
}

// flow writes the start ('s'), a step ('t') or the end ('f') of an arrow, at
// the slice that begins at an instant.
func (e *encoder) flow(kind byte, what string, id sim.RequestID, at sim.Time, t *track) {
	e.begin(t.flow)
	e.at(`,"ts":`, nanos(at))
	e.integer(`,"id":`, int64(id)+1)
	e.text(`,"ph":"`)
	e.buf = append(e.buf, kind)
	e.text(what)
	e.end("}")
}

// What arrows are called, behind the letter of their kind.
const (
	arrowRequest = `","cat":"request","name":"request"`
	arrowHandoff = `","cat":"handoff","name":"handoff"`
)

// lane writes a part of a request's lane.
func (e *encoder) lane(id sim.RequestID, name string, from, to sim.Time) {
	e.asynchronous('b', id, name, from)
	e.asynchronous('e', id, name, to)
}

// mark writes an instant on a request's lane.
func (e *encoder) mark(id sim.RequestID, name string, at sim.Time) {
	e.asynchronous('n', id, name, at)
}

func (e *encoder) asynchronous(kind byte, id sim.RequestID, name string, at sim.Time) {
	e.begin(`"tid":1,"cat":"request","pid":2`)
	e.at(`,"ts":`, nanos(at))
	e.integer(`,"id":`, int64(id)+1)
	e.text(`,"ph":"`)
	e.buf = append(e.buf, kind)
	e.text(`","name":"`)
	e.text(name)
	if name == whole {
		e.buf = append(e.buf, ' ')
		e.digits(uint64(id))
	}
	e.end(`"}`)
}

// whole is the name of a lane's part from arrival to last token.
const whole = "request"

// process names a group of tracks and says where it stands.
func (e *encoder) process(pid, order int64, name string) {
	e.metadata("process_name", pid, 0)
	e.text(`"name":"` + name)
	e.end(`"}}`)
	e.metadata("process_sort_index", pid, 0)
	e.integer(`"sort_index":`, order)
	e.end("}}")
}

// thread names a track.
func (e *encoder) thread(pid, tid int64, name string) {
	e.metadata("thread_name", pid, tid)
	e.text(`"name":"` + name)
	e.end(`"}}`)
}

// metadata begins an event that tells of a track, up to what is told.
func (e *encoder) metadata(name string, pid, tid int64) {
	e.begin(`"ph":"M"`)
	e.integer(`,"pid":`, pid)
	e.integer(`,"tid":`, tid)
	e.text(`,"name":"` + name + `","args":{`)
}
