package formats

import "strconv"

// bailianRows reads the traces of Qwen on Bailian: rows that name the chat they
// go on from.
type bailianRows struct {
	s     *Stream
	f     fields
	chats map[int64]chat
	ends  map[int64]stamp // by root: when the last turn came; only for chains
	group []byte
}

// chat is what is kept of a row.
type chat struct {
	root int64
	line int32
}

func openBailian(s *Stream) (rows, error) {
	s.Chained = s.o.Sessions == "chain"
	if s.Chained {
		s.o.warn(s.Name + ": bailian knows when requests came, not when they were answered; delays are from start to start")
	}
	return &bailianRows{s: s, chats: make(map[int64]chat), ends: make(map[int64]stamp)}, s.fixedBlock(16)
}

func (b *bailianRows) next(r *Record) error {
	line, err := b.s.lines.next()
	if err != nil {
		return err
	}
	r.reset(b.s.lines.line)
	if err := b.f.open(line); err != nil {
		return b.s.lines.errorf("%v", err)
	}
	b.row(r)
	if b.f.err != nil {
		return b.s.lines.errorf("%v", b.f.err)
	}
	return nil
}

func (b *bailianRows) row(r *Record) {
	f := &b.f
	id, hasID := f.integer("chat_id")
	parent, hasParent := f.integer("parent_chat_id")
	r.arrives(f.needStamp("timestamp", 9))
	r.Input = f.needCount("input_length")
	r.Output = f.needCount("output_length")
	var has bool
	if r.IDs, has = f.ids("hash_ids", r.IDs); !has {
		f.missing("hash_ids", "one per 16 tokens")
	}
	if !hasID {
		f.missing("chat_id", "an integer")
	}
	if !hasParent {
		f.missing("parent_chat_id", "an integer, -1 for none")
	}
	if n, ok := f.integer("turn"); ok && n < 1 {
		f.complain("turn is %d, want >= 1", n)
	}
	if before, twice := b.chats[id]; twice && hasID {
		f.complain("chat_id %d was on line %d, want each once", id, before.line)
	}
	if hasID && id == parent {
		f.complain("parent_chat_id %d is the row's own chat_id, want another chat or -1", parent)
	}
	if f.err == nil {
		b.join(r, id, parent)
	}
}

// join finds the conversation of a row: that of its parent, or its own when the
// parent is not in the file before it.
func (b *bailianRows) join(r *Record, id, parent int64) {
	root := id
	if p, ok := b.chats[parent]; ok && parent >= 0 {
		root = p.root
	}
	b.chats[id] = chat{root, int32(r.Line)}
	b.group = strconv.AppendInt(b.group[:0], root, 10)
	r.Group = b.group
	if !b.s.Chained {
		return
	}
	r.Session = b.group
	if before, ok := b.ends[root]; ok {
		r.HasDelay, r.Delay = true, max(0, r.when.since(before))
	}
	b.ends[root] = r.when
}
