package reference

import (
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// sequence is the pages that the tokens of a request make: first the full pages
// of its prompt, then pages that hold a generated token, which nobody shares.
//
// Pages are counted from the start of the sequence, and a page's key stands for
// it and everything before it.
type sequence struct {
	nodes []prompt.NodeID
	full  int32 // pages of prompt tokens alone
	seed  int32 // > 0: the prompt is unique
	owner sim.RequestID
	// prompt is the number of prompt tokens; generated ones follow.
	prompt int32
}

func newSequence(r *sim.Request) sequence {
	return sequence{
		nodes: r.Prompt.Nodes, full: r.Prompt.Blocks, seed: r.Prompt.Seed,
		owner: r.ID, prompt: int32(r.InputTokens),
	}
}

// pageKey names a page together with those before it, among pages of the same
// place: a kind of page, two bits, and the 31 bits of a number that is not
// negative.
type pageKey uint64

const (
	uniqueKey    pageKey = 1 << 31 // a page of a unique prompt
	generatedKey pageKey = 2 << 31 // a page that holds a generated token
)

// key returns the key of page i; perNode is the number of pages of a prompt node.
func (s *sequence) key(i, perNode int32) pageKey {
	switch {
	case i >= s.full:
		return generatedKey | pageKey(s.owner)
	case perNode == 1:
		return s.nodeKey(i)
	}
	return s.nodeKey(i / perNode)
}

// nodeKey returns the key of the pages of the prompt's node i.
func (s *sequence) nodeKey(i int32) pageKey {
	if s.seed > 0 {
		return uniqueKey | pageKey(s.seed)
	}
	return pageKey(s.nodes[i])
}

// commonPages returns the first page up to to in which a and b differ, to if
// none does; they agree up to and including page from. Where they differ once
// they differ for good, so the last page usually decides.
func commonPages(a, b *sequence, from, to, perNode int32) int32 {
	if a.key(to-1, perNode) == b.key(to-1, perNode) {
		return to
	}
	same, differ := from, to-1
	for same+1 < differ {
		mid := same + (differ-same)/2
		if a.key(mid, perNode) == b.key(mid, perNode) {
			same = mid
		} else {
			differ = mid
		}
	}
	return differ
}
