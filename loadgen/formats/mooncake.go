package formats

import (
	"fmt"

	"github.com/replay-llm/replay/loadgen"
)

// mooncakeRows reads Mooncake rows one by one. A workload is read by
// loadgen.ReadMooncake instead, to the last digit as the reference does; here
// nothing is kept of earlier rows.
type mooncakeRows struct {
	s *Stream
	f fields
}

func openMooncake(s *Stream) (rows, error) {
	s.shape.raw, s.Chained = true, true
	return &mooncakeRows{s: s}, nil
}

func (m *mooncakeRows) next(r *Record) error {
	line, err := m.s.lines.next()
	if err != nil {
		return err
	}
	r.reset(m.s.lines.line)
	if err := m.f.openRow(line); err != nil {
		return m.s.lines.errorf("%v", err)
	}
	m.f.moment(r)
	m.lengths(r)
	if m.f.err != nil {
		return m.s.lines.errorf("%v", m.f.err)
	}
	return nil
}

func (m *mooncakeRows) lengths(r *Record) {
	f := &m.f
	var given, has bool
	r.IDs, has = f.ids("hash_ids", r.IDs)
	if !has {
		f.missing("hash_ids", fmt.Sprintf("one per %d tokens", m.s.Block))
	}
	r.Input, given = f.count("input_length", "input_tokens")
	held := len(r.IDs) * m.s.Block
	if !given || held < r.Input {
		r.Input = held
	}
	if r.Input > maxTokens {
		f.complain("hash_ids has %d ids of %d tokens, want at most %d tokens", len(r.IDs), m.s.Block, maxTokens)
	}
	r.Output = f.needCount("output_length", "output_tokens")
}

// openRow starts on a Mooncake row: an object, or the list of its fields.
func (f *fields) openRow(line []byte) error {
	c := cursor{text: line}
	if c.space(); c.peek() != '[' {
		return f.open(line)
	}
	f.place, f.err = "", nil
	if err := c.list(0); err != nil {
		return err
	}
	if err := c.end(); err != nil {
		return err
	}
	names := [...]string{"session_id", "timestamp", "created_time", "input_length", "output_length", "hash_ids", "delay", "delay_ms"}
	parts, _ := elements(line, nil)
	if len(parts) > len(names) {
		return fmt.Errorf("a list of %d fields, want at most %d", len(parts), len(names))
	}
	f.members = f.members[:0]
	for i, p := range parts {
		f.members = append(f.members, member{[]byte(names[i]), p})
	}
	return nil
}

// moment reads session, arrival and delay as Mooncake rows have them.
func (f *fields) moment(r *Record) {
	if id := f.text("session_id"); id != nil {
		r.Session, r.Group = id, id
	}
	r.At, r.HasAt = f.float("timestamp")
	if at, ok := f.float("created_time"); ok && !r.HasAt {
		r.At, r.HasAt = at, true
	}
	r.Delay, r.HasDelay = f.float("delay")
	if d, ok := f.float("delay_ms"); ok && !r.HasDelay {
		r.Delay, r.HasDelay = d, true
	}
	if r.Delay < 0 {
		f.complain("delay is %v, want >= 0", r.Delay)
	}
}

// deltaRows reads Mooncake rows whose later turns hold new tokens only: a prompt
// is the prompt before, what was answered, and what the row adds.
type deltaRows struct {
	mooncakeRows
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
	return &deltaRows{mooncakeRows: mooncakeRows{s: s}, chains: make(map[string][]segment)}, nil
}

func (d *deltaRows) next(r *Record) error {
	if err := d.mooncakeRows.next(r); err != nil {
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
	r.IDs = d.chop(past, r.IDs[:0])
	if r.Session != nil {
		d.answers++
		d.chains[string(r.Session)] = append(past, segment{d.answers, true, r.Output})
	}
	return nil
}

// chop cuts the segments into blocks. Blocks of the same parts after the same
// blocks are the same.
func (d *deltaRows) chop(past []segment, dst []uint64) []uint64 {
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

// pending is records of one line, given one by one.
type pending struct {
	all  []Record
	next int
}

// take gives the next one.
func (p *pending) take(r *Record) bool {
	if p.next == len(p.all) {
		p.all, p.next = p.all[:0], 0
		return false
	}
	ids := append(r.IDs[:0], p.all[p.next].IDs...)
	*r = p.all[p.next]
	r.IDs = ids
	p.next++
	return true
}

// add makes room for one more.
func (p *pending) add(line int) *Record {
	if len(p.all) < cap(p.all) {
		p.all = p.all[:len(p.all)+1]
	} else {
		p.all = append(p.all, Record{})
	}
	r := &p.all[len(p.all)-1]
	r.reset(line)
	return r
}

func rowAt(name string, line int, err error) error {
	return &loadgen.SyntaxError{Name: name, Line: line, Msg: err.Error()}
}
