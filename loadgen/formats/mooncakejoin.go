package formats

import (
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/replay-llm/replay/loadgen"
)

// mooncakeFile joins the rows of a file to sessions, to the last digit as the
// reference does.
type mooncakeFile struct {
	*collector
	tails []tail           // by session
	named map[string]int32 // session by explicit id
	// lineNamed has the sessions whose explicit id is the automatic one of a
	// line.
	lineNamed map[int]int32
}

// tail is the end of a session as read so far.
type tail struct {
	has  bool    // time is known
	time float64 // the last timestamp
}

// workload reads all rows.
func (m *mooncakeRows) workload() (*loadgen.Workload, error) {
	file := mooncakeFile{collector: newCollector(m.s.Name, m.s.Block), named: make(map[string]int32)}
	file.place, file.lines, file.ownIDs, file.w.SessionPrefix = file.placeRow, m.s.lines, true, loadgen.RequestPrefix
	var r Record
	for {
		keep, err := false, m.readRow(&r)
		if err == nil {
			keep, err = m.s.applyZeroOutput(&r)
		}
		if keep {
			err = file.addRecord(&r)
		}
		if err == io.EOF {
			file.w.Dropped = m.s.Dropped()
			return file.finish("the file is empty, want at least one request", nil)
		}
		if err != nil {
			return nil, err
		}
	}
}

// placeRow finds the place of a row.
func (m *mooncakeFile) placeRow(r *Record) (Place, error) {
	session := m.sessionOf(r)
	if int(session) == len(m.tails) {
		if r.HasDelay && r.Delay != 0 {
			return Place{}, m.lines.errorf("delay is %v on the first turn of a session, want 0 or none", r.Delay)
		}
		m.nameSession(session, r)
		m.tails = appendIn(m.lines, m.tails, tail{r.HasAt, r.At})
		return Place{Session: int(session), First: true}, nil
	}
	end := &m.tails[session]
	delay := r.Delay
	switch {
	case r.HasDelay || !r.HasAt:
	case !end.has:
		return Place{}, m.lines.errorf("timestamp is given, but the session had none before; want a delay")
	default:
		delay = r.At - end.time
	}
	switch finite := !math.IsInf(delay, 0) && !math.IsNaN(delay); {
	case finite && delay >= 0:
	case r.HasDelay:
		return Place{}, m.lines.errorf("delay is %v, want >= 0", delay)
	case delay > 0:
		return Place{}, m.lines.errorf("timestamp %v is too far from the %v of the session's turn before", r.At, end.time)
	default:
		return Place{}, m.lines.errorf("timestamp is %v, want at least the %v of the session's turn before", r.At, end.time)
	}
	if r.HasAt {
		*end = tail{true, r.At}
	}
	return Place{Session: int(session), Delay: delay}, nil
}

// nameSession notes the names by which later rows may call the session that r begins.
func (m *mooncakeFile) nameSession(session int32, r *Record) {
	if r.Session == nil {
		return
	}
	m.named[string(r.Session)] = session
	if line, ok := requestLine(r.Session); ok {
		if m.lineNamed == nil {
			m.lineNamed = make(map[int]int32)
		}
		m.lineNamed[line] = session
	}
}

// sessionOf is the index of the record's session; of the one to come when new.
func (m *mooncakeFile) sessionOf(r *Record) int32 {
	if r.Session == nil {
		if i, ok := m.lineNamed[r.Line]; ok {
			return i
		}
		return int32(len(m.w.Sessions))
	}
	if i, ok := m.named[string(r.Session)]; ok {
		return i
	}
	if line, ok := requestLine(r.Session); ok {
		return m.findAutomatic(line)
	}
	return int32(len(m.w.Sessions))
}

// findAutomatic is the session that the given line opened without an id, or the
// one to come.
func (m *mooncakeFile) findAutomatic(line int) int32 {
	at, found := slices.BinarySearchFunc(m.w.Sessions, line, func(s loadgen.Session, line int) int {
		return int(m.w.Turns[s.First].Line) - line // sessions are in order of their first line
	})
	if found && m.w.Sessions[at].Automatic {
		return int32(at)
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
