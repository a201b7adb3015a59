// Package mooncake reads traces in the Mooncake format. Each line is a request with the hash ids of the blocks of its
// prompt.
//
// Read row.go, mooncake.go, join.go (sessions joined like in the reference) and parallel.go (several cores).
package mooncake

import (
	"io"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// rows reads Mooncake rows one by one and stores no earlier rows. Type file joins the rows of a complete file to
// sessions.
type rows struct {
	s      *formats.Stream
	row    row
	ranked bool // at least one row had a priority

	parallel *parallelRows // nil if only one goroutine parses
}

// Open returns a reader of the format mooncake.
func Open(s *formats.Stream) (formats.Reader, error) {
	s.Shape.Raw, s.Chained = true, true
	m := newRows(s)
	return &m, nil
}

func newRows(s *formats.Stream) rows {
	s.Lines.Plain = true
	row := row{scanner: scan.Scanner{Compat: s.Options.Compat}, priorityName: s.Options.PriorityFrom}
	if row.scanner.Compat {
		row.scanner.Ignored = fieldClass | fieldAfter
		if row.priorityName == "" {
			row.scanner.Ignored |= fieldPriority
		}
	}
	return rows{s: s, row: row}
}

// readRow reads the next row into r. The arena stores its ids.
func (m *rows) readRow(r *formats.Record) error {
	err := m.nextRow()
	if name := m.row.priorityName; err == io.EOF && name != "" && !m.ranked {
		return excerpt.Errorf("%s: no row has the field %s, expected the one that has the priority", m.s.Name, name)
	}
	if err == io.EOF {
		m.s.WarnLess()
	}
	if err != nil {
		return err
	}
	r.Reset(m.s.Lines.Line)
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

// nextRow parses the next row.
func (m *rows) nextRow() error {
	if m.parallel != nil {
		return m.parallel.next(&m.row.values, m.s.Lines)
	}
	line, err := m.s.Lines.Next()
	if err != nil {
		return err
	}
	m.row.block = m.s.Block
	if err := m.row.readLine(line); err != nil {
		return m.s.Lines.Errorf("%v", err)
	}
	return nil
}

// checkCover returns an error if the number of ids of the latest row is not the number of blocks of its prompt.
func (m *rows) checkCover(r *formats.Record) error {
	f := &m.row
	if f.delta || !f.has(fieldInput) || f.input == 0 {
		return nil
	}
	return m.s.CheckWhole(r, uint64(len(f.ids)), f.input, f.misfit)
}

func (m *rows) Next(r *formats.Record) error {
	m.row.arena.Reset(r.IDs)
	if err := m.readRow(r); err != nil {
		return err
	}
	if r.Delay < 0 {
		return m.s.Lines.Errorf("delay is %v, must be >= 0", r.Delay)
	}
	return nil
}

// deltaRows reads Mooncake rows of which the later turns contain only new tokens. The prompt of a turn is the prompt
// of the previous turn, its answer and the tokens in the row.
type deltaRows struct {
	s       *formats.Stream
	rows    rows
	chains  map[string][]segment
	blocks  formats.Trie
	answers uint64 // answers read so far; the number is the id of an answer
}

// segment is the first tokens of a block or of an answer.
type segment struct {
	id     uint64
	answer bool
	tokens int
}

// OpenDelta returns a reader of the format mooncake-delta.
func OpenDelta(s *formats.Stream) (formats.Reader, error) {
	s.Chained = true
	d := &deltaRows{s: s, rows: newRows(s), chains: make(map[string][]segment), blocks: make(formats.Trie)}
	d.rows.row.delta = true
	return d, nil
}

func (d *deltaRows) Next(r *formats.Record) error {
	if err := d.rows.Next(r); err != nil {
		return err
	}
	if r.HasAt {
		r.Arrives(scan.Stamp{MS: r.At})
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
	if r.Input > scan.MaxTokens {
		return d.s.RowError(r, "the prompt with all before it is %d tokens, must be at most %d", r.Input, scan.MaxTokens)
	}
	r.IDs = d.chopBlocks(past, r.IDs[:0])
	if r.Session != nil {
		d.answers++
		d.chains[string(r.Session)] = append(past, segment{d.answers, true, r.Output})
	}
	return nil
}

// chopBlocks divides the segments into blocks and appends their ids to dst. Blocks with equal segments after equal
// blocks get the same id.
func (d *deltaRows) chopBlocks(past []segment, dst []uint64) []uint64 {
	node, room := formats.TrieRoot, d.s.Block
	for _, p := range past {
		for from := 0; from < p.tokens; {
			n := min(room, p.tokens-from)
			node = d.blocks.Child(node, formats.Piece{ID: p.id, From: int32(from), Tokens: int32(n), Own: p.answer})
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

// Is reports whether a record is a Mooncake row.
func Is(o *scan.Object) bool {
	return o.Has("output_length", "output_tokens", "input_length", "input_tokens", "hash_ids") && !o.Has("prompt", "text", "texts", "turns")
}
