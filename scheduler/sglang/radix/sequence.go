package radix

import (
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Sequence is the pages of a request's tokens: first the full pages of its prompt, then pages with generated tokens.
// Pages with generated tokens are not shared.
//
// Pages are counted from the start of the sequence. The key of a page identifies the page and its whole prefix.
type Sequence struct {
	Nodes []prompt.NodeID
	Full  int32 // number of pages with only prompt tokens
	Seed  int32 // > 0: the prompt is unique
	Owner sim.RequestID
	// Prompt is the number of prompt tokens; generated tokens follow.
	Prompt int32
	// Pairs is 1 if a page is identified by its tokens and the next token. A page identified by its next token, too,
	// is full only if the next token is a prompt token. Pairs is 0 if a page is identified by its own tokens.
	Pairs int32
	// Next maps each of Nodes to a representative of all nodes that begin with the same token, if Pairs is 1 and pages
	// straddle blocks of the trace; otherwise nil.
	Next []prompt.NodeID
}

// NewSequence returns the pages of r.
func NewSequence(r *sim.Request) Sequence {
	return Sequence{
		Nodes: r.Prompt.Nodes, Full: r.Prompt.Blocks, Seed: r.Prompt.Seed,
		Owner: r.ID, Prompt: int32(r.InputTokens),
	}
}

// Key identifies a page together with its prefix, among pages with the same index. Key consists of two bits for the
// kind of page and a non-negative number of 31 bits.
type Key uint64

const (
	uniqueKey    Key = 1 << 31 // a page of a unique prompt
	generatedKey Key = 2 << 31 // a page with a generated token
)

// KeyOf returns the key of page i; perNode is the number of pages of a prompt node.
func (s *Sequence) KeyOf(i, perNode int32) Key {
	switch {
	case i >= s.Full:
		return generatedKey | Key(s.Owner)
	case s.Next != nil && s.Seed == 0:
		return Key(s.Next[i+s.Pairs])
	case perNode == 1:
		return s.NodeKey(i + s.Pairs)
	}
	return s.NodeKey((i + s.Pairs) / perNode)
}

// NodeKey returns the key of the pages of prompt node i.
func (s *Sequence) NodeKey(i int32) Key {
	if s.Seed > 0 {
		return uniqueKey | Key(s.Seed)
	}
	return Key(s.Nodes[i])
}

// commonPages returns the first page before to in which a and b differ, or to if there is none. The sequences must
// agree up to and including page from. After a difference, all later pages differ, so that one comparison of the last
// page is usually enough.
func commonPages(a, b *Sequence, from, to, perNode int32) int32 {
	if a.KeyOf(to-1, perNode) == b.KeyOf(to-1, perNode) {
		return to
	}
	same, differ := from, to-1
	for same+1 < differ {
		mid := same + (differ-same)/2
		if a.KeyOf(mid, perNode) == b.KeyOf(mid, perNode) {
			same = mid
		} else {
			differ = mid
		}
	}
	return differ
}

// Token returns the value of output i of the request.
func (s *Sequence) Token(i int) uint64 { return 1<<63 | uint64(s.Owner)<<32 | uint64(i) }
