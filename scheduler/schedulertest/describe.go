package schedulertest

import (
	"fmt"
	"strings"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// blockNames assigns readable names to blocks.
type blockNames struct {
	hashes map[uint64]string
	nodes  map[prompt.NodeID]string
	own    int // number of named blocks that belong to no prompt
}

func newBlockNames() blockNames {
	return blockNames{hashes: make(map[uint64]string), nodes: make(map[prompt.NodeID]string)}
}

// nameOf returns the name of the block with the given sequence hash.
func (b *blockNames) nameOf(hash uint64) string {
	if _, ok := b.hashes[hash]; !ok {
		b.own++
		b.hashes[hash] = fmt.Sprintf("g%d", b.own)
	}
	return b.hashes[hash]
}

// describePass returns the results of the latest pass, one fact per line.
func (s *transcript) describePass() string {
	var out strings.Builder
	p, d := &s.pass, s.pass.Detail
	fmt.Fprintf(&out, "pass %v to %v", p.Start, p.End)
	if len(p.Ends) > 0 {
		fmt.Fprintf(&out, ", %d passes of %v to %v", p.Count, p.GapOf(0), p.GapOf(p.Count-1))
	} else if p.Count > 1 {
		fmt.Fprintf(&out, ", %d passes of %v", p.Count, p.Gap)
	}
	out.WriteByte('\n')
	for _, a := range p.Admitted {
		fmt.Fprintf(&out, "admit %d reused=%d", a.Request, a.Reused)
		if a.FromHost > 0 {
			fmt.Fprintf(&out, " from-host=%d", a.FromHost)
		}
		out.WriteByte('\n')
	}
	for _, id := range d.Lost {
		fmt.Fprintf(&out, "preempt %d\n", id)
	}
	for _, w := range d.Work {
		fmt.Fprintf(&out, "prefill %d prompt=%d after=%d", w.Request, w.Prompt, w.Prefix)
		if w.Recomputed > 0 {
			fmt.Fprintf(&out, " recomputed=%d", w.Recomputed)
		}
		out.WriteByte('\n')
	}
	if p.Tokens > 0 {
		fmt.Fprintf(&out, "tokens=%d", p.Tokens)
		s.describeTokens(&out)
		out.WriteByte('\n')
	}
	s.describeCache(&out)
	fmt.Fprintf(&out, "running=%d waiting=%d held=%d cached=%d free=%d\n",
		d.Running, d.Waiting, d.Held, d.Cached, d.Blocks-d.Held-d.Cached)
	return out.String()
}

// describeTokens writes the requests that gained a first, last, second or resumed token.
func (s *transcript) describeTokens(out *strings.Builder) {
	p := &s.pass
	for _, m := range p.Marks {
		switch {
		case m.First && m.Last:
			fmt.Fprintf(out, " only=%d", m.Request)
		case m.First:
			fmt.Fprintf(out, " first=%d", m.Request)
		default:
			fmt.Fprintf(out, " last=%d", m.Request)
		}
		if m.Handoff > 0 {
			fmt.Fprintf(out, " handoff=%v", m.Handoff)
		}
	}
	writeIDs(out, " second=", p.Second)
	for i, gap := range p.Gaps {
		fmt.Fprintf(out, " resumed=%d after=%v", p.Detail.Resumed[i], gap)
	}
}

// describeCache writes the stored and evicted blocks.
func (s *transcript) describeCache(out *strings.Builder) {
	for _, e := range s.pass.Events {
		tier := ""
		if e.Tier != scheduler.Device {
			tier = " on " + e.Tier.String()
		}
		if len(e.Stored) > 0 {
			fmt.Fprintf(out, "store%s", tier)
			for _, b := range e.Stored {
				fmt.Fprintf(out, " %s", s.names.nameOf(b.Seq))
			}
			if e.HasParent {
				fmt.Fprintf(out, " after %s", s.names.nameOf(e.Parent))
			}
			out.WriteByte('\n')
		}
		if len(e.Removed) > 0 {
			fmt.Fprintf(out, "evict%s", tier)
			for _, h := range e.Removed {
				fmt.Fprintf(out, " %s", s.names.nameOf(h))
			}
			out.WriteByte('\n')
		}
	}
	for _, k := range s.pass.KV {
		fmt.Fprintf(out, "cached %s: %d blocks\n", s.names.nodes[k.Node], k.Blocks)
	}
}

// writeIDs writes ids with a label, if there are any.
func writeIDs(out *strings.Builder, label string, ids []sim.RequestID) {
	for i, id := range ids {
		if i > 0 {
			label = ","
		}
		fmt.Fprintf(out, "%s%d", label, id)
	}
}
