package formats

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
)

// mooncakeFile joins the rows of a file to sessions, to the last digit as the
// reference does.
type mooncakeFile struct {
	mooncakeRows
	w *loadgen.Workload

	tails []tail           // by session
	named map[string]int32 // session by explicit id
	// lineNamed has the sessions whose explicit id is the automatic one of a
	// line.
	lineNamed map[int]int32
}

// tail is the end of a session as read so far.
type tail struct {
	turn int32
	has  bool    // time is known
	time float64 // the last timestamp
}

// workload reads all rows.
func (m *mooncakeRows) workload() (*loadgen.Workload, error) {
	w := &loadgen.Workload{Name: m.s.Name, TraceBlock: m.s.Block, SessionPrefix: loadgen.RequestPrefix}
	file := mooncakeFile{mooncakeRows: *m, w: w, named: make(map[string]int32)}
	for {
		err := file.readRow()
		if err == nil {
			if err = file.addRow(); err != nil {
				err = m.s.lines.errorf("%v", err)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if len(w.Turns) == 0 {
		return nil, &loadgen.SyntaxError{Name: m.s.Name, Msg: "the file is empty, want at least one request"}
	}
	return w, nil
}

// addRow appends the turn of the row just read.
func (m *mooncakeFile) addRow() error {
	f := &m.row.fields
	turn := loadgen.Turn{Input: m.row.input, Output: m.row.output, IDs: f.ids}
	at, timed := f.either(fieldTimestamp, fieldCreated, 0)
	session := m.sessionOf()
	if int(session) == len(m.tails) {
		return m.addFirst(turn, at, timed)
	}
	return m.addNext(session, turn, at, timed)
}

// sessionOf is the index of the record's session; of the one to come when new.
func (m *mooncakeFile) sessionOf() int32 {
	fresh := int32(len(m.w.Sessions))
	if !m.row.fields.has(fieldSession) {
		if i, ok := m.lineNamed[m.s.lines.line]; ok {
			return i
		}
		return fresh
	}
	if i, ok := m.named[string(m.row.fields.session)]; ok {
		return i
	}
	line, ok := requestLine(m.row.fields.session)
	if !ok {
		return fresh
	}
	return m.findAutomatic(line)
}

func (m *mooncakeFile) addFirst(t loadgen.Turn, at float64, timed bool) error {
	if delay, ok := m.row.fields.either(fieldDelay, fieldDelayMS, 2); ok && delay != 0 {
		return fmt.Errorf("delay is %v on the first turn of a session, want 0 or none", delay)
	}
	index := int32(len(m.w.Sessions))
	s := loadgen.Session{
		First: int32(len(m.w.Turns)), Automatic: !m.row.fields.has(fieldSession),
		Arrival: sim.Time(at), HasArrival: timed,
	}
	if !timed {
		s.Arrival = 0
	}
	if !s.Automatic {
		s.ID = string(m.row.fields.session)
		m.named[s.ID] = index
		if line, ok := requestLine(m.row.fields.session); ok {
			if m.lineNamed == nil {
				m.lineNamed = make(map[int]int32)
			}
			m.lineNamed[line] = index
		}
	}
	m.w.Sessions = appendIn(m.s.lines, m.w.Sessions, s)
	m.tails = appendIn(m.s.lines, m.tails, tail{turn: -1})
	m.linkTurn(index, t, at, timed)
	return nil
}

func (m *mooncakeFile) addNext(session int32, t loadgen.Turn, at float64, timed bool) error {
	end := m.tails[session]
	delay, given := m.row.fields.either(fieldDelay, fieldDelayMS, 2)
	switch {
	case given:
	case !timed:
		delay = 0
	case !end.has:
		return fmt.Errorf("timestamp is given, but the session had none before; want a delay")
	default:
		delay = at - end.time
	}
	t.Delay = sim.Time(delay)
	if math.IsInf(delay, 0) || math.IsNaN(delay) || delay < 0 {
		if !given && delay > 0 {
			return fmt.Errorf("timestamp %v is too far from the %v of the session's turn before", at, end.time)
		}
		if !given {
			return fmt.Errorf("timestamp is %v, want at least the %v of the session's turn before", at, end.time)
		}
		return fmt.Errorf("delay is %v, want >= 0", delay)
	}
	m.linkTurn(session, t, at, timed)
	return nil
}

// appendIn appends v to what is read from l.
func appendIn[T any](l *lines, list []T, v T) []T {
	if len(list) == cap(list) {
		list = append(make([]T, 0, l.roomFor(len(list))), list...)
	}
	return append(list, v)
}

// linkTurn links the turn to the end of its session.
func (m *mooncakeFile) linkTurn(session int32, t loadgen.Turn, at float64, timed bool) {
	index := int32(len(m.w.Turns))
	end, s := &m.tails[session], &m.w.Sessions[session]
	t.Session, t.Index, t.Next, t.Line = session, s.Turns, -1, int32(m.s.lines.line)
	m.w.Turns = appendIn(m.s.lines, m.w.Turns, t)
	if end.turn >= 0 {
		m.w.Turns[end.turn].Next = index
	}
	s.Turns++
	end.turn = index
	if timed {
		end.has, end.time = true, at
	}
}

// findAutomatic is the session that the given line opened without an id, or the
// one to come.
func (m *mooncakeFile) findAutomatic(line int) int32 {
	from, to := 0, len(m.w.Sessions)
	for from < to { // sessions are in order of their first line
		mid := (from + to) / 2
		if int(m.w.Turns[m.w.Sessions[mid].First].Line) < line {
			from = mid + 1
		} else {
			to = mid
		}
	}
	if from < len(m.w.Sessions) {
		s := &m.w.Sessions[from]
		if s.Automatic && int(m.w.Turns[s.First].Line) == line {
			return int32(from)
		}
	}
	return int32(len(m.w.Sessions))
}

// requestLine is the line whose automatic session id is id.
func requestLine(id []byte) (int, bool) {
	if len(id) <= len(loadgen.RequestPrefix) || string(id[:len(loadgen.RequestPrefix)]) != loadgen.RequestPrefix {
		return 0, false
	}
	digits := string(id[len(loadgen.RequestPrefix):])
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0 && strconv.Itoa(n) == digits
}
