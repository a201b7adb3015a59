// Package prompt describes prompts by what they share.
//
// A trace has of a prompt only the blocks of tokens it is made of (its hash
// ids) and how long it is. Nothing in a simulation needs the tokens: caches and
// routers ask whether two prompts begin alike. So prompts become paths in one
// prefix tree per block size, and a path costs a word per trace block instead
// of a word per token.
//
// Read prompt.go, then list.go, tree.go, join.go, forget.go and hash.go.
package prompt

import (
	"fmt"
	"math"
)

// NodeID names a node of a Tree: a piece of prompt together with everything
// before it. Ids are dense, count up from 0, and, but in a tree that forgets, a child's is larger
// than its parent's.
type NodeID int32

// None is no node: the parent of a first node.
const None NodeID = -1

// maxNodes bounds the nodes of a tree, so that ids, and 1 + an id, fit in 31
// bits.
const maxNodes = math.MaxInt32 - 1

// checkNodes panics if have leaves no room for one more node.
func checkNodes(have int) {
	if have >= maxNodes {
		panic(fmt.Sprintf("prompt tree: more than %d nodes", maxNodes))
	}
}

// Prompt is a prompt as a path in a Tree.
type Prompt struct {
	// Nodes covers the tokens from the first to the last; the last node may be
	// covered in part only. In a joined tree Nodes covers the full engine blocks
	// alone, and all nodes in full. It is empty for a unique prompt.
	Nodes []NodeID
	// Blocks is the number of full engine blocks; the tokens after them fill no
	// block. Node n holds those from Tree.Start(n) up to Tree.End(n).
	Blocks int32
	// Seed is > 0 if the prompt is unique: it shares no block with any
	// other. Seed - 1 is then the index its tokens are drawn from.
	Seed int32
}

// Unique reports whether the prompt shares no block with any other.
func (p *Prompt) Unique() bool { return p.Seed > 0 }
