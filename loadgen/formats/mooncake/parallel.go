package mooncake

import (
	"io"
	"sync"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

const (
	partBytes    = 128 << 10 // of a file, parsed by one goroutine, and the rest of the last line
	parallelFrom = 1 << 20   // bytes of a file from which on several goroutines parse
)

// parallelRows parses the rows of a file on several goroutines. It returns the same rows and errors in the same order as
// one goroutine does.
type parallelRows struct {
	bytes int         // of a part, without the rest of the last line
	mu    sync.Mutex  // of file and ended
	file  *scan.Lines // to cut parts from
	ended bool

	free    chan *part // to fill
	ordered chan *part // in the order of the file; closed after the last
	stopped chan struct{}
	own     *parser // of the goroutine that takes the rows

	now   *part
	taken int // rows of now that next has returned
}

// part is consecutive lines of a file.
type part struct {
	text  scan.Part
	rows  []parsedRow
	names []byte // sessions and classes of rows
	ready chan struct{}
}

// parsedRow is a row, or what is wrong with it.
type parsedRow struct {
	values
	place scan.Place
	err   error
}

// parser is what a goroutine parses rows with.
type parser struct {
	lines *scan.Lines
	row   row
}

// parseParallel starts threads-1 goroutines, at least 1, that parse the rows of s until stop, in parts of some bytes. The
// goroutine that takes the rows parses some too.
func parseParallel(s *formats.Stream, threads, bytes int) *parallelRows {
	const perThread = 4 // parts
	p := &parallelRows{
		bytes: bytes, file: s.Lines.TakeRest(), free: make(chan *part, threads*perThread), ordered: make(chan *part, threads*perThread),
		stopped: make(chan struct{}), own: newParser(s), now: new(part),
	}
	for range cap(p.free) {
		p.free <- &part{ready: make(chan struct{}, 1), names: make([]byte, 0, 64)}
	}
	for range threads - 1 {
		x := newParser(s)
		go func() {
			for p.waitPart(x) {
			}
		}()
	}
	return p
}

func newParser(s *formats.Stream) *parser {
	row := newRows(s).row
	row.block = s.Block
	return &parser{lines: s.Lines.NewPartLines(), row: row}
}

// stop ends the goroutines. It does not wait for a read in progress.
func (p *parallelRows) stop() { close(p.stopped) }

// waitPart parses a part once there is a free one. It returns false after the last.
func (p *parallelRows) waitPart(x *parser) bool {
	select {
	case q := <-p.free:
		return p.parsePart(x, q)
	case <-p.stopped:
		return false
	}
}

// parsePart reads and parses the next part of the file. It returns false after the last.
func (p *parallelRows) parsePart(x *parser, q *part) bool {
	if !p.cutPart(q) {
		return false
	}
	x.parseRows(q)
	q.ready <- struct{}{}
	return true
}

// cutPart reads the next part of the file.
func (p *parallelRows) cutPart(q *part) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	if p.ended = !p.file.ReadPart(&q.text, p.bytes); p.ended {
		close(p.ordered)
		return false
	}
	p.ordered <- q
	return true
}

// parseRows parses all rows of a part.
func (x *parser) parseRows(q *part) {
	q.rows, q.names = q.rows[:0], q.names[:0]
	x.lines.Begin(&q.text)
	for {
		line, err := x.lines.Next()
		if err == io.EOF {
			return
		}
		if err == nil {
			if err = x.row.readLine(line); err != nil {
				err = x.lines.Errorf("%v", err)
			}
		}
		q.rows = append(q.rows, parsedRow{values: x.row.values, place: x.lines.Place(), err: err})
		if scan.IsFatal(err) {
			return
		}
		r := &q.rows[len(q.rows)-1]
		r.session, r.class = q.keepName(r.session), q.keepName(r.class)
	}
}

// keepName copies a name, nil or not, into the memory of the part.
func (q *part) keepName(name []byte) []byte {
	if name == nil {
		return nil
	}
	from := len(q.names)
	q.names = append(q.names, name...)
	return q.names[from:len(q.names):len(q.names)]
}

// next replaces *v with the next row and moves lines to its place. io.EOF comes after the last.
func (p *parallelRows) next(v *values, lines *scan.Lines) error {
	for p.taken == len(p.now.rows) {
		if !p.nextPart() {
			return io.EOF
		}
	}
	r := &p.now.rows[p.taken]
	p.taken++
	*v = r.values
	lines.MoveTo(r.place)
	return r.err
}

// nextPart replaces the part of which all rows are taken. While the next one is not ready, it parses further parts.
func (p *parallelRows) nextPart() bool {
	if p.now.ready != nil {
		p.free <- p.now
	}
	q, more := <-p.ordered
	if !more {
		return false
	}
	for {
		select {
		case <-q.ready:
			p.now, p.taken = q, 0
			return true
		default:
		}
		select {
		case <-q.ready:
			q.ready <- struct{}{}
		case spare := <-p.free:
			p.parsePart(p.own, spare)
		}
	}
}
