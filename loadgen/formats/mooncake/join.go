package mooncake

import (
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// file joins the rows of a file to sessions. Delays are computed exactly as in the reference.
type file struct {
	*formats.Collector
	lines *scan.Lines
	tails []tail           // by session
	named map[string]int32 // session by its id in the file
	// lineNamed has the sessions with an id of the form request_LINE in the file, by line number.
	lineNamed map[int]int32
}

// tail is the latest turn of a session.
type tail struct {
	has  bool    // the turn has a timestamp
	time float64 // the last timestamp
}

// Workload reads all rows. Workload uses several goroutines if Threads permits it and the file is long enough.
func (m *rows) Workload() (*loadgen.Workload, error) {
	if n := m.s.Options.Threads; n > 1 && m.s.Lines.IsLong(parallelFrom) {
		m.parallel = parseParallel(m.s, n, partBytes)
		defer m.parallel.stop()
	}
	return m.readAll()
}

// readAll returns the workload of all rows.
func (m *rows) readAll() (*loadgen.Workload, error) {
	file := file{Collector: formats.NewCollector(m.s), lines: m.s.Lines, named: make(map[string]int32)}
	file.Place, file.OwnIDs, file.W.SessionPrefix = file.placeRow, true, loadgen.RequestPrefix
	var r formats.Record
	for {
		keep, err := false, m.readRow(&r)
		if err == nil {
			keep, err = m.s.ApplyZeroOutput(&r)
		}
		if keep {
			err = file.AddRecord(&r)
		}
		if err == io.EOF {
			file.W.Dropped = m.s.Dropped()
			return file.Finish("the file is empty, must be at least one request", nil)
		}
		if err != nil {
			return nil, err
		}
	}
}

// placeRow returns the session and the delay of a row.
func (m *file) placeRow(r *formats.Record) (formats.Place, error) {
	session := m.sessionOf(r)
	if int(session) == len(m.tails) {
		if r.HasDelay && r.Delay != 0 {
			return formats.Place{}, m.lines.Errorf("delay is %v on the first turn of a session, must be 0 or none", r.Delay)
		}
		m.nameSession(session, r)
		m.tails = scan.AppendIn(m.lines, m.tails, tail{r.HasAt, r.At})
		return formats.Place{Session: int(session), First: true}, nil
	}
	end := &m.tails[session]
	delay := r.Delay
	switch {
	case r.HasDelay || !r.HasAt:
	case !end.has:
		return formats.Place{}, m.lines.Errorf("timestamp is given, but the session had none before; must be a delay")
	default:
		delay = r.At - end.time
	}
	switch finite := !math.IsInf(delay, 0) && !math.IsNaN(delay); {
	case finite && delay >= 0:
	case r.HasDelay:
		return formats.Place{}, m.lines.Errorf("delay is %v, must be >= 0", delay)
	case delay > 0:
		return formats.Place{}, m.lines.Errorf("timestamp %v is too far from the %v of the session's turn before", r.At, end.time)
	default:
		return formats.Place{}, m.lines.Errorf("timestamp is %v, must be at least the %v of the session's turn before", r.At, end.time)
	}
	if r.HasAt {
		*end = tail{true, r.At}
	}
	return formats.Place{Session: int(session), Delay: delay}, nil
}

// nameSession stores the session under the id of its first row r.
func (m *file) nameSession(session int32, r *formats.Record) {
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

// sessionOf returns the index of the session of r. For a new session it returns the index of the next session.
func (m *file) sessionOf(r *formats.Record) int32 {
	if r.Session == nil {
		if i, ok := m.lineNamed[r.Line]; ok {
			return i
		}
		return int32(len(m.W.Sessions))
	}
	if i, ok := m.named[string(r.Session)]; ok {
		return i
	}
	if line, ok := requestLine(r.Session); ok {
		return m.findAutomatic(line)
	}
	return int32(len(m.W.Sessions))
}

// findAutomatic returns the index of the automatic session that started at the given line. If this session does not
// exist, findAutomatic returns the index of the next session.
func (m *file) findAutomatic(line int) int32 {
	at, found := slices.BinarySearchFunc(m.W.Sessions, line, func(s loadgen.Session, line int) int {
		return int(m.W.Turns[s.First].Line) - line // sessions are sorted by their first line
	})
	if found && m.W.Sessions[at].Automatic {
		return int32(at)
	}
	return int32(len(m.W.Sessions))
}

// requestLine returns the line number in an automatic session id.
func requestLine(id []byte) (int, bool) {
	if len(id) <= len(loadgen.RequestPrefix) || string(id[:len(loadgen.RequestPrefix)]) != loadgen.RequestPrefix {
		return 0, false
	}
	digits := string(id[len(loadgen.RequestPrefix):])
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0 && strconv.Itoa(n) == digits
}
