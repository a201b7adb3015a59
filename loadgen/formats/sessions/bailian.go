package sessions

import (
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// bailianRows reads the traces of Qwen on Bailian. A row contains the id of the chat that it continues.
type bailianRows struct {
	formats.LineRows
	chats map[int64]chat
	came  map[int64]scan.Stamp // arrival by chat id; only for chains and graphs
	graph bool
	names []byte // name of the conversation, then of the chain
}

// chat has the fields of an earlier row.
type chat struct {
	root, chain int64
	line        int32
	heir        bool // another chat continues it
}

// OpenBailian opens a trace of Qwen on Bailian.
func OpenBailian(s *formats.Stream) (formats.Reader, error) {
	s.Chained = s.Options.Sessions == "chain"
	if s.Chained {
		s.Warn(s.Name + ": bailian knows when requests came, not when they were answered; delays are from start to start")
	}
	b := &bailianRows{chats: make(map[int64]chat), came: make(map[int64]scan.Stamp), graph: s.Options.WantsGraph()}
	b.S, b.Read = s, b.readRow
	const block = 16
	if want := s.Options.TraceBlock; want != 0 && want != block {
		return nil, &loadgen.SyntaxError{Name: s.Name, Msg: fmt.Sprintf("trace block size is %d, must be %d for %s", want, block, s.Format)}
	}
	s.Block = block
	return b, nil
}

func (b *bailianRows) readRow(f *scan.Fields) error {
	r := b.Add(f.Line)
	id, hasID := f.ReadInteger("chat_id")
	parent, hasParent := f.ReadInteger("parent_chat_id")
	r.Arrives(f.NeedStamp("timestamp", 9))
	r.Input = f.NeedCount("input_length")
	r.Output = f.NeedCount("output_length")
	r.IDs = f.NeedIDs("hash_ids", "one per 16 tokens", r.IDs)
	if !hasID {
		f.Missing("chat_id", "an integer")
	}
	if !hasParent {
		f.Missing("parent_chat_id", "an integer, -1 for none")
	}
	if n, ok := f.ReadInteger("turn"); ok && n < 1 {
		f.Complain("turn is %d, must be >= 1", n)
	}
	if before, twice := b.chats[id]; twice && hasID {
		f.Complain("chat_id %d was on line %d, must be unique", id, before.line)
	}
	if hasID && id == parent {
		f.Complain("parent_chat_id %d is the row's own chat_id, use another chat or -1", parent)
	}
	if f.Err == nil {
		b.joinChat(r, id, parent)
	}
	return nil
}

// joinChat assigns a row to the conversation of its parent. If the parent is not earlier in the file, the row starts
// a new conversation. The first child of a parent continues its chain, and each later child starts a new chain.
func (b *bailianRows) joinChat(r *formats.Record, id, parent int64) {
	root, chain := id, id
	before, known := b.chats[parent]
	known = known && parent >= 0
	later := known && !before.heir
	if known {
		root = before.root
		if later {
			chain, before.heir = before.chain, true
			b.chats[parent] = before
		}
	}
	b.chats[id] = chat{root: root, chain: chain, line: int32(r.Line)}
	b.names = strconv.AppendInt(b.names[:0], root, 10)
	n := len(b.names)
	r.Group = b.names[:n:n]
	if !b.S.Chained && !b.graph {
		return
	}
	b.names = strconv.AppendInt(b.names, chain, 10)
	gap := 0.0
	if known {
		gap = max(0, r.When.Since(b.came[parent]))
	}
	b.came[id] = r.When
	if !b.graph {
		r.Group, r.Session = b.names[:n:n], b.names[n:]
		if later {
			r.HasDelay, r.Delay = true, gap
		}
		return
	}
	r.Group, r.Agent, r.Name = b.names[:n:n], string(b.names[n:]), strconv.FormatInt(id, 10)
	if known {
		// Without --sessions chain the edge starts at the arrival of the parent, because the trace does not contain
		// its end.
		e := formats.Edge{Name: strconv.FormatInt(parent, 10), Dispatch: !b.S.Chained, Relation: "sequence", Delay: gap}
		if !later {
			e.Relation = "spawn"
		}
		r.After = append(r.After, e)
	}
}
