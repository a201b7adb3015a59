package timeline

import (
	"io"
	"math"
	"strconv"

	"github.com/replay-llm/replay/sim"
)

// encoder writes trace events as JSON, one per line.
type encoder struct {
	out   io.Writer
	buf   []byte
	err   error
	first bool // nothing has been written to the list yet
	open  bool // the event has an object of arguments
	comma bool // the next argument is not the first
}

// flushBytes is how much is gathered before it is written.
const flushBytes = 1 << 18

func newEncoder(out io.Writer) encoder {
	e := encoder{out: out, buf: make([]byte, 0, flushBytes+4096), first: true}
	e.buf = append(e.buf, `{"displayTimeUnit":"ms","traceEvents":[`...)
	return e
}

func (e *encoder) close() error {
	e.buf = append(e.buf, "\n]}\n"...)
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
func (e *encoder) begin(head string, pid int64) {
	if !e.first {
		e.buf = append(e.buf, ',')
	}
	e.first, e.open, e.comma = false, false, false
	e.buf = append(e.buf, head...)
	e.number(pid)
}

// end completes the event.
func (e *encoder) end() {
	if e.open {
		e.buf = append(e.buf, '}')
	}
	e.buf = append(e.buf, '}')
	if len(e.buf) >= flushBytes {
		e.flush()
	}
}

// text begins a member that holds a text; quote ends it.
func (e *encoder) text(key, s string) *encoder {
	e.buf = append(e.buf, ',', '"')
	e.buf = append(e.buf, key...)
	e.buf = append(e.buf, '"', ':', '"')
	return e.more(s)
}

// more adds to a text. All texts are of this package: nothing needs escapes.
func (e *encoder) more(s string) *encoder {
	e.buf = append(e.buf, s...)
	return e
}

func (e *encoder) number(n int64) *encoder {
	e.buf = strconv.AppendInt(e.buf, n, 10)
	return e
}

func (e *encoder) quote() *encoder {
	e.buf = append(e.buf, '"')
	return e
}

// member adds a number to the event; key has its punctuation.
func (e *encoder) member(key string, n int64) {
	e.buf = append(e.buf, key...)
	e.number(n)
}

// args begins the event's arguments.
func (e *encoder) args() {
	e.buf = append(e.buf, `,"args":{`...)
	e.open, e.comma = true, false
}

func (e *encoder) key(key string) {
	if e.comma {
		e.buf = append(e.buf, ',')
	}
	e.comma = true
	e.buf = append(e.buf, '"')
	e.buf = append(e.buf, key...)
	e.buf = append(e.buf, '"', ':')
}

// integer adds an argument.
func (e *encoder) integer(key string, n int64) *encoder {
	e.key(key)
	return e.number(n)
}

// float adds an argument.
func (e *encoder) float(key string, v float64) *encoder {
	e.key(key)
	e.buf = strconv.AppendFloat(e.buf, v, 'g', -1, 64)
	return e
}

// word adds an argument.
func (e *encoder) word(key, s string) *encoder {
	e.key(key)
	return e.more(`"`).more(s).quote()
}

// at adds an instant: microseconds with three digits, which is whole ns. key has
// its punctuation.
func (e *encoder) at(key string, ns int64) {
	e.buf = append(e.buf, key...)
	e.buf = strconv.AppendInt(e.buf, ns/1000, 10)
	rest := ns % 1000
	e.buf = append(e.buf, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
}

// nanos is an instant in whole ns, so that a slice ends where the next begins.
func nanos(t sim.Time) int64 { return int64(math.Round(float64(t) * 1e6)) }

// slice begins a slice of a track; its name and arguments follow.
func (e *encoder) slice(pid int64, from, to sim.Time) {
	e.begin("\n{\"ph\":\"X\",\"tid\":1,\"pid\":", pid)
	start := nanos(from)
	e.at(`,"ts":`, start)
	e.at(`,"dur":`, nanos(to)-start)
}

// title names a slice of passes.
func (e *encoder) title(s *slice) {
	e.text("name", "")
	if s.prompt > 0 {
		e.more("prefill ").number(int64(s.prompt))
		if s.tokens > 0 {
			e.more(", ")
		}
	}
	if s.prompt == 0 || s.tokens > 0 {
		e.more("decode ").number(int64(s.tokens))
	}
	if s.passes > 1 {
		e.more(" x").number(int64(s.passes))
	}
	e.quote()
}

// counter begins a point of a worker's counter; its values follow as arguments.
func (e *encoder) counter(pid int64, at sim.Time, name string) {
	e.begin("\n{\"ph\":\"C\",\"pid\":", pid)
	e.at(`,"ts":`, nanos(at))
	e.text("name", name).quote()
	e.args()
}

// flow writes the start ('s'), a step ('t') or the end ('f') of an arrow, at
// the slice that begins at an instant.
func (e *encoder) flow(kind byte, what string, id sim.RequestID, at sim.Time, pid int64) {
	e.begin("\n{\"tid\":1,\"bp\":\"e\",\"pid\":", pid)
	e.at(`,"ts":`, nanos(at))
	e.member(`,"id":`, int64(id)+1)
	e.buf = append(e.buf, `,"ph":"`...)
	e.buf = append(e.buf, kind)
	e.buf = append(e.buf, `","cat":"`...)
	e.buf = append(e.buf, what...)
	e.buf = append(e.buf, `","name":"`...)
	e.more(what).quote()
	e.end()
}

// lane writes a part of a request's lane.
func (e *encoder) lane(id sim.RequestID, name string, from, to sim.Time) {
	e.asynchronous("\n{\"ph\":\"b\",\"tid\":1,\"cat\":\"request\",\"pid\":", id, name, from)
	e.asynchronous("\n{\"ph\":\"e\",\"tid\":1,\"cat\":\"request\",\"pid\":", id, name, to)
}

// mark writes an instant on a request's lane.
func (e *encoder) mark(id sim.RequestID, name string, at sim.Time) {
	e.asynchronous("\n{\"ph\":\"n\",\"tid\":1,\"cat\":\"request\",\"pid\":", id, name, at)
}

func (e *encoder) asynchronous(head string, id sim.RequestID, name string, at sim.Time) {
	e.begin(head, pidRequests)
	e.at(`,"ts":`, nanos(at))
	e.member(`,"id":`, int64(id)+1)
	e.text("name", name)
	if name == "request" {
		e.more(" ").number(int64(id))
	}
	e.quote()
	e.end()
}

// process names a group of tracks and says where it stands.
func (e *encoder) process(pid, order int64, name string) {
	e.metadata("process_name", pid, 0)
	e.word("name", name).end()
	e.metadata("process_sort_index", pid, 0)
	e.integer("sort_index", order).end()
}

// thread names a track.
func (e *encoder) thread(pid, tid int64, name string) {
	e.metadata("thread_name", pid, tid)
	e.word("name", name).end()
}

func (e *encoder) metadata(name string, pid, tid int64) {
	e.begin("\n{\"ph\":\"M\",\"pid\":", pid)
	e.member(`,"tid":`, tid)
	e.text("name", name).quote()
	e.args()
}
