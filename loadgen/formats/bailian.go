package formats

import (
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/loadgen"
)

// bailianRows reads the traces of Qwen on Bailian: rows that name the chat they
// go on from.
type bailianRows struct {
	lineRows
	chats map[int64]chat
	came  map[int64]stamp // by chat: when it came; only for chains and graphs
	graph bool
	names []byte // of the conversation, then of the chain
}

// chat is what is kept of a row.
type chat struct {
	root, chain int64
	line        int32
	heir        bool // another goes on from it
}

func openBailian(s *Stream) (rows, error) {
	s.Chained = s.o.Sessions == "chain"
	if s.Chained {
		s.o.warn(s.Name + ": bailian knows when requests came, not when they were answered; delays are from start to start")
	}
	b := &bailianRows{chats: make(map[int64]chat), came: make(map[int64]stamp), graph: s.o.graph()}
	b.s, b.read = s, b.readRow
	const block = 16
	if want := s.o.TraceBlock; want != 0 && want != block {
		return nil, &loadgen.SyntaxError{Name: s.Name, Msg: fmt.Sprintf("trace block size is %d, want %d for %s", want, block, s.Format)}
	}
	s.Block = block
	return b, nil
}

func (b *bailianRows) readRow(f *fields) error {
	r := b.add(f.line)
	id, hasID := f.readInteger("chat_id")
	parent, hasParent := f.readInteger("parent_chat_id")
	r.arrives(f.needStamp("timestamp", 9))
	r.Input = f.needCount("input_length")
	r.Output = f.needCount("output_length")
	r.IDs = f.needIDs("hash_ids", "one per 16 tokens", r.IDs)
	if !hasID {
		f.missing("chat_id", "an integer")
	}
	if !hasParent {
		f.missing("parent_chat_id", "an integer, -1 for none")
	}
	if n, ok := f.readInteger("turn"); ok && n < 1 {
		f.complain("turn is %d, want >= 1", n)
	}
	if before, twice := b.chats[id]; twice && hasID {
		f.complain("chat_id %d was on line %d, want each once", id, before.line)
	}
	if hasID && id == parent {
		f.complain("parent_chat_id %d is the row's own chat_id, want another chat or -1", parent)
	}
	if f.err == nil {
		b.joinChat(r, id, parent)
	}
	return nil
}

// joinChat finds the conversation of a row: that of its parent, or its own when the
// parent is not in the file before it. The first chat that goes on from another
// is of its chain; others begin one of their own.
func (b *bailianRows) joinChat(r *Record, id, parent int64) {
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
	if !b.s.Chained && !b.graph {
		return
	}
	b.names = strconv.AppendInt(b.names, chain, 10)
	gap := 0.0
	if known {
		gap = max(0, r.when.since(b.came[parent]))
	}
	b.came[id] = r.when
	if !b.graph {
		r.Group, r.Session = b.names[:n:n], b.names[n:]
		if later {
			r.HasDelay, r.Delay = true, gap
		}
		return
	}
	r.Group, r.Agent, r.Name = b.names[:n:n], string(b.names[n:]), strconv.FormatInt(id, 10)
	if known {
		// What is known is when the parent came, unless chains are asked for.
		e := Edge{Name: strconv.FormatInt(parent, 10), Dispatch: !b.s.Chained, Relation: "sequence", Delay: gap}
		if !later {
			e.Relation = "spawn"
		}
		r.After = append(r.After, e)
	}
}
