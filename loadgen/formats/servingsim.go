package formats

import (
	"fmt"
	"strconv"
)

// simRows reads the traces of LLMServingSim: requests, sessions of requests, or
// results, in any order.
type simRows struct {
	s     *Stream
	f     fields
	queue pending
	paths trie
	name  []byte
}

func openServingSim(s *Stream) (rows, error) {
	s.Chained = s.o.Sessions != "flat"
	return &simRows{s: s}, nil
}

func (p *simRows) next(r *Record) error {
	for !p.queue.takeNext(r) {
		line, err := p.s.lines.next()
		if err != nil {
			return err
		}
		if err := p.f.openLine(line); err != nil {
			return p.s.lines.errorf("%v", err)
		}
		if p.f.has("sub_requests") {
			p.readSession()
		} else {
			p.readSingle()
		}
		if p.f.err != nil {
			p.queue.all = p.queue.all[:0]
			return p.s.lines.errorf("%v", p.f.err)
		}
	}
	return nil
}

func (p *simRows) readSingle() {
	f := &p.f
	r := p.queue.add(p.s.lines.line)
	if f.has("queued_ts") || !f.has("arrival_time_ns") && f.has("arrival_time") {
		r.arrives(f.needStamp("arrival_time", 9))
		if f.has("input_toks") {
			p.readLengths(f, r)
			return
		}
		r.Input, r.Output, r.Private = f.needCount("input"), f.needCount("output"), true
		return
	}
	r.arrives(f.needStamp("arrival_time_ns", 0))
	p.readLengths(f, r)
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

func (p *simRows) readSession() {
	f := &p.f
	id := f.readName("session_id")
	if id == nil {
		id = strconv.AppendInt(p.name[:0], int64(p.s.lines.line), 10)
		p.name = id
	}
	start := f.needStamp("arrival_time_ns", 0)
	subs := f.readList("sub_requests")
	if len(subs) == 0 {
		f.complain("sub_requests is empty, want at least one")
	}
	tool := 0.0
	for i, v := range subs {
		var q fields
		q.openMember(v, fmt.Sprintf("sub_requests[%d].", i))
		r := p.queue.add(p.s.lines.line)
		r.Session, r.Group = id, id
		if i == 0 {
			r.arrives(start)
		} else {
			r.HasDelay, r.Delay = true, tool
		}
		p.readLengths(&q, r)
		wait, _ := q.readStamp("tool_duration_ns", 0)
		if tool = wait.ms; tool < 0 {
			q.mismatch("tool_duration_ns", q.value("tool_duration_ns"), ">= 0")
		}
		f.adoptError(&q)
	}
}
