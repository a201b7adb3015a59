package sessions

import (
	"strconv"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// simRows reads traces of LLMServingSim. Rows can be requests, sessions of requests and results, in any order.
type simRows struct {
	formats.LineRows
	paths formats.Trie
	name  []byte
}

// OpenServingSim opens a trace of LLMServingSim.
func OpenServingSim(s *formats.Stream) (formats.Reader, error) {
	s.Chained = s.Options.Sessions != "flat"
	p := &simRows{paths: make(formats.Trie)}
	p.S, p.Read = s, p.readRow
	return p, nil
}

func (p *simRows) readRow(f *scan.Fields) error {
	if f.Has("sub_requests") {
		p.readSession(f)
		return nil
	}
	r := p.Add(f.Line)
	switch {
	case !f.Has("queued_ts") && (f.Has("arrival_time_ns") || !f.Has("arrival_time")):
		r.Arrives(f.NeedStamp("arrival_time_ns", 0))
		p.readLengths(f, r)
	case f.Has("input_toks"):
		r.Arrives(f.NeedStamp("arrival_time", 9))
		p.readLengths(f, r)
	default:
		r.Arrives(f.NeedStamp("arrival_time", 9))
		r.Input, r.Output, r.Private = f.NeedCount("input"), f.NeedCount("output"), true
	}
	return nil
}

func (p *simRows) readLengths(f *scan.Fields, r *formats.Record) {
	r.Input = f.NeedCount("input_toks")
	r.Output = f.NeedCount("output_toks")
	tokens, has := f.ReadIDs("input_tok_ids", nil)
	if !has {
		r.Private = true
		return
	}
	if len(tokens) != r.Input {
		f.Complain("%sinput_toks is %d, input_tok_ids has %d, must be as many", f.Place, r.Input, len(tokens))
	}
	node := formats.TrieRoot
	for i, t := range tokens {
		node = p.paths.Child(node, formats.Piece{ID: t})
		if (i+1)%p.S.Block == 0 {
			r.IDs = append(r.IDs, uint64(node))
		}
	}
}

func (p *simRows) readSession(f *scan.Fields) {
	id := f.ReadName("session_id")
	if id == nil {
		id = strconv.AppendInt(p.name[:0], int64(f.Line), 10)
		p.name = id
	}
	start := f.NeedStamp("arrival_time_ns", 0)
	tool := 0.0
	for i, q := range f.Elements("sub_requests") {
		r := p.Add(f.Line)
		r.Session, r.Group = id, id
		if i == 0 {
			r.Arrives(start)
		} else {
			r.HasDelay, r.Delay = true, tool
		}
		p.readLengths(q, r)
		wait, _ := q.ReadStamp("tool_duration_ns", 0)
		if tool = wait.MS; tool < 0 {
			q.Mismatch("tool_duration_ns", q.Value("tool_duration_ns"), ">= 0")
		}
	}
	if len(p.All) == 0 {
		f.Complain("sub_requests is empty, must be at least one")
	}
}
