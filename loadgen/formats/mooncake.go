package formats

import (
	"io"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
)

// mooncakeRows gives Mooncake rows one by one and keeps nothing of earlier ones.
// What a whole file comes to, where sessions are joined as the reference joins
// them, is mooncakeFile.
type mooncakeRows struct {
	s      *Stream
	row    mooncakeRow
	ranked bool // a row had a priority
}

func openMooncake(s *Stream) (rows, error) {
	s.shape.raw, s.Chained = true, true
	m := newMooncakeRows(s)
	return &m, nil
}

func newMooncakeRows(s *Stream) mooncakeRows {
	s.lines.plain = true
	row := mooncakeRow{scanner: scanner{compat: s.o.Compat}, priorityName: s.o.PriorityFrom}
	if row.scanner.compat {
		row.scanner.ignored = fieldClass | fieldAfter
		if row.priorityName == "" {
			row.scanner.ignored |= fieldPriority
		}
	}
	return mooncakeRows{s: s, row: row}
}

// readRow reads the next row into r, its ids into memory of the arena.
func (m *mooncakeRows) readRow(r *Record) error {
	line, err := m.s.lines.next()
	if name := m.row.priorityName; err == io.EOF && name != "" && !m.ranked {
		return excerpt.Errorf("%s: no row has the field %s, want the one that has the priority", m.s.Name, name)
	}
	if err == io.EOF {
		m.s.warnLess()
	}
	if err != nil {
		return err
	}
	m.row.block = m.s.Block
	if err := m.row.readLine(line); err != nil {
		return m.s.lines.errorf("%v", err)
	}
	r.reset(m.s.lines.line)
	if err := m.checkCover(r); err != nil {
		return err
	}
	f := &m.row
	m.ranked = m.ranked || f.has(fieldPriority)
	r.IDs, r.Input, r.Output, r.Priority = f.ids, int(f.prompt), int(f.answer), f.priority
	if f.has(fieldClass) {
		r.Class = f.class
	}
	if f.has(fieldSession) {
		r.Session, r.Group = f.session, f.session
	}
	r.At, r.HasAt = f.either(fieldTimestamp, fieldCreated, 0)
	r.Delay, r.HasDelay = f.either(fieldDelay, fieldDelayMS, 2)
	return nil
}

// checkCover refuses the row just read if it has not one id for each block of its prompt.
func (m *mooncakeRows) checkCover(r *Record) error {
	f := &m.row
	if f.delta || !f.has(fieldInput) || f.input == 0 {
		return nil
	}
	n := uint64(len(f.ids))
	m.s.cover.add(n, f.input, false, false)
	switch {
	case !f.misfit:
		return nil
	case f.scanner.compat:
		m.s.takeLess(r, n, f.input)
		return nil
	}
	return m.s.coverError(r, n, f.input, false)
}

func (m *mooncakeRows) next(r *Record) error {
	m.row.arena.reset(r.IDs)
	if err := m.readRow(r); err != nil {
		return err
	}
	if r.Delay < 0 {
		return m.s.lines.errorf("delay is %v, want >= 0", r.Delay)
	}
	return nil
}

// deltaRows reads Mooncake rows whose later turns hold new tokens only: a prompt
// is the prompt before, what was answered, and what the row adds.
type deltaRows struct {
	s       *Stream
	rows    mooncakeRows
	chains  map[string][]segment
	blocks  trie
	answers uint64 // segments of answers so far, each of its own content
}

// segment is a run of tokens: the beginning of what an id stands for.
type segment struct {
	id     uint64
	answer bool
	tokens int
}

func openDelta(s *Stream) (rows, error) {
	s.Chained = true
	d := &deltaRows{s: s, rows: newMooncakeRows(s), chains: make(map[string][]segment), blocks: make(trie)}
	d.rows.row.delta = true
	return d, nil
}

func (d *deltaRows) next(r *Record) error {
	if err := d.rows.next(r); err != nil {
		return err
	}
	if r.HasAt {
		r.arrives(stamp{ms: r.At})
	}
	var past []segment
	if r.Session != nil {
		past = d.chains[string(r.Session)]
	}
	left := r.Input
	for _, id := range r.IDs {
		past = append(past, segment{id: id, tokens: min(left, d.s.Block)})
		left -= min(left, d.s.Block)
	}
	r.Input = 0
	for _, p := range past {
		r.Input += p.tokens
	}
	if r.Input > maxTokens {
		return d.s.rowError(r, "the prompt with all before it is %d tokens, want at most %d", r.Input, maxTokens)
	}
	r.IDs = d.chopBlocks(past, r.IDs[:0])
	if r.Session != nil {
		d.answers++
		d.chains[string(r.Session)] = append(past, segment{d.answers, true, r.Output})
	}
	return nil
}

// chopBlocks cuts the segments into blocks. Blocks of the same parts after the same
// blocks are the same.
func (d *deltaRows) chopBlocks(past []segment, dst []uint64) []uint64 {
	node, room := trieRoot, d.s.Block
	for _, p := range past {
		for from := 0; from < p.tokens; {
			n := min(room, p.tokens-from)
			node = d.blocks.child(node, edge{id: p.id, from: int32(from), tokens: int32(n), own: p.answer})
			from += n
			if room -= n; room == 0 {
				dst, room = append(dst, uint64(node)), d.s.Block
			}
		}
	}
	if room < d.s.Block {
		dst = append(dst, uint64(node))
	}
	return dst
}

func rowAt(name string, line int, err error) error {
	return &loadgen.SyntaxError{Name: name, Line: line, Msg: err.Error()}
}
