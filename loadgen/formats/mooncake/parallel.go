package mooncake

import (
	"io"
	"sync"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

const (
	partBytes    = 128 << 10 // bytes of a part without the end of its last line; one goroutine parses a part
	parallelFrom = 1 << 20   // minimum size in bytes of a file that is parsed by several goroutines
)

// parallelRows parses the rows of a file on several goroutines. parallelRows returns the same rows and errors as one
// goroutine, in the same order.
type parallelRows struct {
	bytes int         // size of a part without the end of its last line
	mu    sync.Mutex  // protects file and ended
	file  *scan.Lines // input that is divided into parts
	ended bool

	free    chan *part // parts that can be filled
	ordered chan *part // parts in the order of the file; closed after the last part
	stopped chan struct{}
	own     *parser // parser of the goroutine that calls next

	now   *part
	taken int // number of rows of now that next has returned
}

// part has consecutive lines of a file.
type part struct {
	text  scan.Part
	rows  []parsedRow
	names []byte // session names and class names of rows
	ready chan struct{}
}

// parsedRow is a row or its error.
type parsedRow struct {
	values
	place scan.Place
	err   error
}

// parser has the state for parsing rows on one goroutine.
type parser struct {
	lines *scan.Lines
	row   row
}

// parseParallel starts threads-1 goroutines that parse the rows of s until stop is called. bytes is the size of a
// part. The goroutine that calls next parses parts too.
func parseParallel(s *formats.Stream, threads, bytes int) *parallelRows {
	const perThread = 4 // parts per goroutine
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

// stop ends the goroutines. stop does not wait for a read in progress.
func (p *parallelRows) stop() { close(p.stopped) }

// waitPart waits for a free part and parses the next lines into it. waitPart returns false after the end of the file.
func (p *parallelRows) waitPart(x *parser) bool {
	select {
	case q := <-p.free:
		return p.parsePart(x, q)
	case <-p.stopped:
		return false
	}
}

// parsePart reads the next part of the file into q and parses it. parsePart returns false after the end of the file.
func (p *parallelRows) parsePart(x *parser, q *part) bool {
	if !p.cutPart(q) {
		return false
	}
	x.parseRows(q)
	q.ready <- struct{}{}
	return true
}

// cutPart reads the next part of the file into q. cutPart returns false after the end of the file.
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

// keepName copies a name into the memory of the part. keepName returns nil for nil.
func (q *part) keepName(name []byte) []byte {
	if name == nil {
		return nil
	}
	from := len(q.names)
	q.names = append(q.names, name...)
	return q.names[from:len(q.names):len(q.names)]
}

// next sets *v to the next row and lines to its position. next returns io.EOF after the last row.
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

// nextPart replaces the current part after all its rows were returned. nextPart parses further parts until the next
// part is ready.
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
