package loadgen

import (
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/sim"
)

// session is the index of the record's session; of the one to come when new.
func (m *mooncake) session() int32 {
	fresh := int32(len(m.w.Sessions))
	if !m.fields.has(fieldSession) {
		if i, ok := m.lineNamed[m.lines.line]; ok {
			return i
		}
		return fresh
	}
	if i, ok := m.named[string(m.fields.session)]; ok {
		return i
	}
	line, ok := requestLine(m.fields.session)
	if !ok {
		return fresh
	}
	return m.automatic(line)
}

func (m *mooncake) addFirst(t Turn, at float64, timed bool) error {
	if delay, ok := m.fields.either(fieldDelay, fieldDelayMS, 2); ok && delay != 0 {
		return fmt.Errorf("delay is %v on the first turn of a session, want 0 or none", delay)
	}
	index := int32(len(m.w.Sessions))
	s := Session{
		First: int32(len(m.w.Turns)), Automatic: !m.fields.has(fieldSession),
		Arrival: sim.Time(at), HasArrival: timed,
	}
	if !timed {
		s.Arrival = 0
	}
	if !s.Automatic {
		s.ID = string(m.fields.session)
		m.named[s.ID] = index
		if line, ok := requestLine(m.fields.session); ok {
			if m.lineNamed == nil {
				m.lineNamed = make(map[int]int32)
			}
			m.lineNamed[line] = index
		}
	}
	m.w.Sessions = appendIn(m.lines, m.w.Sessions, s)
	m.tails = appendIn(m.lines, m.tails, tail{turn: -1})
	m.append(index, t, at, timed)
	return nil
}

func (m *mooncake) addNext(session int32, t Turn, at float64, timed bool) error {
	end := m.tails[session]
	delay, given := m.fields.either(fieldDelay, fieldDelayMS, 2)
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
	if !finite(t.Delay) || delay < 0 {
		if !given && delay > 0 {
			return fmt.Errorf("timestamp %v is too far from the %v of the session's turn before", at, end.time)
		}
		if !given {
			return fmt.Errorf("timestamp is %v, want at least the %v of the session's turn before", at, end.time)
		}
		return fmt.Errorf("delay is %v, want >= 0", delay)
	}
	m.append(session, t, at, timed)
	return nil
}

// appendIn appends v to what is read from l.
func appendIn[T any](l *lineReader, list []T, v T) []T {
	if len(list) == cap(list) {
		list = append(make([]T, 0, l.room(len(list))), list...)
	}
	return append(list, v)
}

// append links the turn to the end of its session.
func (m *mooncake) append(session int32, t Turn, at float64, timed bool) {
	index := int32(len(m.w.Turns))
	end, s := &m.tails[session], &m.w.Sessions[session]
	t.Session, t.Index, t.Next, t.Line = session, s.Turns, -1, int32(m.lines.line)
	m.w.Turns = appendIn(m.lines, m.w.Turns, t)
	if end.turn >= 0 {
		m.w.Turns[end.turn].Next = index
	}
	s.Turns++
	end.turn = index
	if timed {
		end.has, end.time = true, at
	}
}

// automatic is the session that the given line opened without an id, or the
// one to come.
func (m *mooncake) automatic(line int) int32 {
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
	if len(id) <= len(requestPrefix) || string(id[:len(requestPrefix)]) != requestPrefix {
		return 0, false
	}
	digits := string(id[len(requestPrefix):])
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0 && strconv.Itoa(n) == digits
}
