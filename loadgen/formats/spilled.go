package formats

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/sim"
)

// spilled returns the turns of sessions that are not kept in memory. spilled implements loadgen.Source. The turns are
// in a temporary file.
//
// For each session it keeps the offset and the arrival of the first turn in memory. A turn in the file has the offset
// of the next turn of its session, and the delay before it.
type spilled struct {
	s      *Stream
	ids    privateIDs
	file   *os.File
	name   string // name of the file if it must be removed at the end; "": already removed
	buf    []byte // data that are not in the file yet
	length int64  // length of the file, without buf

	firsts  []firstTurn // ordered by arrival
	offsets []int64     // offset of the first turn, by session
	given   int         // number of firsts that Next has returned
	turns   []int32     // number of turns, by session
	linked  bool        // a session has more than one turn
	names   classNames
	raw     []byte // memory for reads

	// Rows without sessions are in the file in order of arrival.
	inOrder bool
	next    int64 // offset of the next row
}

// firstTurn is the first turn of a session.
type firstTurn struct {
	at      float64
	when    scan.Stamp // arrival, valid if stamped
	stamped bool
	session int32
}

// Layout of a turn in the file: a header, the name of its session (only in first turns), and its block ids.
const (
	atNext      = 8 * iota // 1 + offset of the next turn, or 0
	atNextDelay            // delay of the next turn in ms
	atLine                 // line and prompt tokens
	atOutput               // output tokens and priority
	atSession              // session and index in the session
	atLengths              // length of the name in bytes, and number of ids
	atArrival              // arrival of rows without sessions
	atClass                // class, 4 bytes
	headerBytes
)

// spillBytes is the size of writes in bytes.
const spillBytes = 1 << 20

// spill reads all rows of s into a temporary file. r has the first record of s.
func (s *Stream) spill(r *Record) (*spilled, error) {
	return s.spillBy(func(x *spilled) error { return x.readAll(r) })
}

// spill reads all rows of o into a temporary file, because the names of all classes must be known before the replay.
func (o *Ordered) spill() (*spilled, error) {
	return o.s.spillBy(func(x *spilled) error {
		x.inOrder = true
		var in loadgen.Incoming
		for {
			switch err := o.Next(&in); {
			case err == io.EOF:
				x.names = o.names
				return x.flush()
			case err != nil:
				return err
			}
			if err := x.write(&in, nil); err != nil {
				return err
			}
		}
	})
}

// spillBy creates a temporary file and calls read to fill it.
func (s *Stream) spillBy(read func(x *spilled) error) (*spilled, error) {
	file, err := os.CreateTemp("", ".replay-turns-*.tmp")
	if err != nil {
		return nil, fmt.Errorf("a temporary file for turns of sessions: %w", err)
	}
	x := &spilled{s: s, file: file, name: file.Name(), ids: privateIDs{s: s}, buf: make([]byte, 0, spillBytes)}
	if os.Remove(x.name) == nil { // on most systems the open file remains usable
		x.name = ""
	}
	if err := read(x); err != nil {
		return nil, cmp.Or(x.closeFile(), err)
	}
	return x, nil
}

// readAll writes all turns to the file.
func (x *spilled) readAll(r *Record) error {
	order := NewOrder(x.s.Name)
	var last []int64 // offset of the latest turn, by session
	for line := 0; ; line++ {
		if line == math.MaxInt32 {
			return x.s.RowError(r, "more than %d requests, must be no more", math.MaxInt32)
		}
		if err := x.s.checkAlone(r); err != nil {
			return err
		}
		place, err := order.Place(r)
		if err != nil {
			return err
		}
		if err := x.ids.nameBlocks(r); err != nil {
			return err
		}
		offset := x.length + int64(len(x.buf))
		if place.First {
			if !r.HasAt {
				return x.s.RowError(r, "session %q has no timestamp, which trace mode needs", x.sessionName(r.Session, r.Line))
			}
			x.firsts = append(x.firsts, firstTurn{at: r.At, when: r.When, stamped: r.Stamped, session: int32(place.Session)})
			x.offsets, last, x.turns = append(x.offsets, offset), append(last, offset), append(x.turns, 0)
		} else {
			if err := x.link(last[place.Session], offset, place.Delay); err != nil {
				return err
			}
			last[place.Session] = offset
		}
		in := loadgen.Incoming{
			IDs: r.IDs, Input: int32(r.Input), Output: int32(r.Output), Line: int32(r.Line), Priority: r.Priority, Class: x.names.place(r.Class),
			Session: int32(place.Session), Turn: x.turns[place.Session],
		}
		x.turns[place.Session]++
		name := r.Session
		if !place.First {
			name = nil
		}
		if err := x.write(&in, name); err != nil {
			return err
		}
		if err := x.s.Next(r); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	stable.Sort(x.firsts, func(a, b firstTurn) int {
		by := cmp.Compare(a.at, b.at)
		if a.stamped && b.stamped {
			by = a.when.Compare(b.when)
		}
		return cmp.Or(by, cmp.Compare(a.session, b.session))
	})
	return x.flush()
}

// sessionName returns the name of a session. line is the line of its first turn.
func (x *spilled) sessionName(name []byte, line int) string {
	if name == nil {
		return loadgen.RequestPrefix + strconv.Itoa(line)
	}
	return string(name)
}

// write appends a turn. name is the name of its session if it is the first turn.
func (x *spilled) write(in *loadgen.Incoming, name []byte) error {
	if len(x.buf) >= spillBytes {
		if err := x.flush(); err != nil {
			return err
		}
	}
	b := binary.LittleEndian
	x.buf = b.AppendUint64(b.AppendUint64(x.buf, 0), 0)
	for _, n := range [...]int32{in.Line, in.Input, in.Output, in.Priority, in.Session, in.Turn, int32(len(name)), int32(len(in.IDs))} {
		x.buf = b.AppendUint32(x.buf, uint32(n))
	}
	x.buf = b.AppendUint64(x.buf, math.Float64bits(float64(in.At)))
	x.buf = b.AppendUint64(x.buf, uint64(in.Class))
	x.buf = append(x.buf, name...)
	for _, id := range in.IDs {
		x.buf = b.AppendUint64(x.buf, id)
	}
	return nil
}

// link sets the offset and the delay of the next turn in a turn of the file.
func (x *spilled) link(turn, next int64, delay float64) error {
	x.linked = true
	var text [16]byte
	binary.LittleEndian.PutUint64(text[atNext:], uint64(next+1))
	binary.LittleEndian.PutUint64(text[atNextDelay:], math.Float64bits(delay))
	if at := turn - x.length; at >= 0 {
		copy(x.buf[at:], text[:])
		return nil
	}
	_, err := x.file.WriteAt(text[:], turn)
	return x.nameError(err)
}

// flush writes buf to the file.
func (x *spilled) flush() error {
	n, err := x.file.WriteAt(x.buf, x.length)
	x.length += int64(n)
	x.buf = x.buf[:0]
	return x.nameError(err)
}

// nameError adds a description of the temporary file to an error.
func (x *spilled) nameError(err error) error {
	if err != nil {
		err = fmt.Errorf("the temporary file of turns, after %d bytes: %w", x.length, err)
	}
	return err
}

// Next reads the first turn of the next session into in.
func (x *spilled) Next(in *loadgen.Incoming) error {
	if x.inOrder {
		if x.next == x.length {
			return io.EOF
		}
		err := x.Later(x.next+1, in)
		x.next += headerBytes + 8*int64(len(in.IDs))
		return err
	}
	if x.given == len(x.firsts) {
		return io.EOF
	}
	first := &x.firsts[x.given]
	x.given++
	if err := x.Later(x.offsets[first.session]+1, in); err != nil {
		return err
	}
	if in.At = sim.Time(first.at); first.stamped {
		in.At = sim.Time(first.when.Since(x.firsts[0].when))
	}
	return nil
}

// MultiTurn reports whether a session has two or more turns.
func (x *spilled) MultiTurn() bool { return x.linked }

// Later reads the turn with the given value of Incoming.Next into in.
func (x *spilled) Later(next int64, in *loadgen.Incoming) error {
	if err := x.readTurn(next-1, in); err != nil {
		return err
	}
	if !x.inOrder {
		in.Turns = x.turns[in.Session]
	}
	return nil
}

// readTurn reads the turn at an offset of the file into in, without the number of turns of its session.
func (x *spilled) readTurn(at int64, in *loadgen.Incoming) error {
	head, err := x.read(at, headerBytes)
	if err != nil {
		return err
	}
	b := binary.LittleEndian
	word := func(at int) int32 { return int32(b.Uint32(head[at:])) }
	*in = loadgen.Incoming{
		IDs: in.IDs[:0], Line: word(atLine), Input: word(atLine + 4), Output: word(atOutput), Priority: word(atOutput + 4), Session: word(atSession), Turn: word(atSession + 4),
		At: sim.Time(math.Float64frombits(b.Uint64(head[atArrival:]))), Class: word(atClass), Turns: 1,
		Next: int64(b.Uint64(head[atNext:])), NextDelay: sim.Time(math.Float64frombits(b.Uint64(head[atNextDelay:]))),
	}
	name, ids := word(atLengths), int(word(atLengths+4))
	text, err := x.read(at+headerBytes+int64(name), 8*ids)
	for i := range ids {
		if err == nil {
			in.IDs = append(in.IDs, b.Uint64(text[8*i:]))
		}
	}
	return err
}

// read returns bytes of the file. The bytes are valid until the next call.
func (x *spilled) read(at int64, bytes int) ([]byte, error) {
	if bytes > cap(x.raw) {
		x.raw = make([]byte, 2*bytes)
	}
	text := x.raw[:bytes]
	if _, err := x.file.ReadAt(text, at); err != nil {
		return nil, x.nameError(err)
	}
	return text, nil
}

// SessionID returns the name of a session.
func (x *spilled) SessionID(session, line int32) (string, error) {
	if x.inOrder {
		return x.sessionName(nil, int(line)), nil
	}
	at := x.offsets[session]
	head, err := x.read(at, headerBytes)
	if err != nil {
		return "", err
	}
	first, bytes := int(binary.LittleEndian.Uint32(head[atLine:])), int(binary.LittleEndian.Uint32(head[atLengths:]))
	if bytes == 0 {
		return x.sessionName(nil, first), nil
	}
	name, err := x.read(at+headerBytes, bytes)
	return string(name), err
}

// Classes returns the names of the classes.
func (x *spilled) Classes() []string { return x.names.w.Classes }

// Dropped returns the counts of dropped rows.
func (x *spilled) Dropped() loadgen.Dropped { return x.s.Dropped() }

// Close closes the temporary file and the trace.
func (x *spilled) Close() error { return cmp.Or(x.closeFile(), x.s.Close()) }

func (x *spilled) closeFile() error {
	err := x.file.Close()
	if x.name != "" {
		err = cmp.Or(err, os.Remove(x.name))
	}
	return err
}
