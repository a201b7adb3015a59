package formats

import "strconv"

// simRows reads the traces of LLMServingSim: requests, sessions of requests, or
// results, in any order.
type simRows struct {
	lineRows
	paths trie
	name  []byte
}

func openServingSim(s *Stream) (rows, error) {
	s.Chained = s.o.Sessions != "flat"
	p := &simRows{paths: make(trie)}
	p.s, p.read = s, p.readRow
	return p, nil
}

func (p *simRows) readRow(f *fields) error {
	if f.has("sub_requests") {
		p.readSession(f)
		return nil
	}
	r := p.add(f.line)
	switch {
	case !f.has("queued_ts") && (f.has("arrival_time_ns") || !f.has("arrival_time")):
		r.arrives(f.needStamp("arrival_time_ns", 0))
		p.readLengths(f, r)
	case f.has("input_toks"):
		r.arrives(f.needStamp("arrival_time", 9))
		p.readLengths(f, r)
	default:
		r.arrives(f.needStamp("arrival_time", 9))
		r.Input, r.Output, r.Private = f.needCount("input"), f.needCount("output"), true
	}
	return nil
}

func (p *simRows) readLengths(f *fields, r *Record) {
	r.Input = f.needCount("input_toks")
	r.Output = f.needCount("output_toks")
	tokens, has := f.readIDs("input_tok_ids", nil)
	if !has {
		r.Private = true
		return
	}
	if len(tokens) != r.Input {
		f.complain("%sinput_toks is %d, input_tok_ids has %d; want as many", f.place, r.Input, len(tokens))
	}
	node := trieRoot
	for i, t := range tokens {
		node = p.paths.child(node, edge{id: t})
		if (i+1)%p.s.Block == 0 {
			r.IDs = append(r.IDs, uint64(node))
		}
	}
}

func (p *simRows) readSession(f *fields) {
	id := f.readName("session_id")
	if id == nil {
		id = strconv.AppendInt(p.name[:0], int64(f.line), 10)
		p.name = id
	}
	start := f.needStamp("arrival_time_ns", 0)
	tool := 0.0
	for i, q := range f.elements("sub_requests") {
		r := p.add(f.line)
		r.Session, r.Group = id, id
		if i == 0 {
			r.arrives(start)
		} else {
			r.HasDelay, r.Delay = true, tool
		}
		p.readLengths(q, r)
		wait, _ := q.readStamp("tool_duration_ns", 0)
		if tool = wait.ms; tool < 0 {
			q.mismatch("tool_duration_ns", q.value("tool_duration_ns"), ">= 0")
		}
	}
	if len(p.all) == 0 {
		f.complain("sub_requests is empty, want at least one")
	}
}
