package radix

import (
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Sequence is the pages that the tokens of a request make: first the full pages
// of its prompt, then pages that hold a generated token, which are not shared.
//
// Pages are counted from the start of the sequence, and a page's key stands for
// it and everything before it.
type Sequence struct {
	Nodes []prompt.NodeID
	Full  int32 // pages of prompt tokens alone
	Seed  int32 // > 0: the prompt is unique
	Owner sim.RequestID
	// Prompt is the number of prompt tokens; generated ones follow.
	Prompt int32
	// Pairs is 1 where a page is known by the token after it, too, and that token must be one
	// of the prompt for it to count as full; 0 otherwise.
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

// Key names a page together with those before it, among pages of the same
// place: a kind of page, two bits, and the 31 bits of a number that is not
// negative.
type Key uint64

const (
	uniqueKey    Key = 1 << 31 // a page of a unique prompt
	generatedKey Key = 2 << 31 // a page that holds a generated token
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

// NodeKey returns the key of the pages of the prompt's node i.
func (s *Sequence) NodeKey(i int32) Key {
	if s.Seed > 0 {
		return uniqueKey | Key(s.Seed)
	}
	return Key(s.Nodes[i])
}

// commonPages returns the first page up to to in which a and b differ, to if
// none does; they agree up to and including page from. Where they differ once
// they differ for good, so the last page usually decides.
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
