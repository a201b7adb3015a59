// Package prompt describes prompts by their common prefixes.
//
// A trace contains only the hash ids of a prompt's blocks and its length. A simulation does not need the tokens:
// caches and routers only compare the beginnings of prompts. So each prompt is a path in one prefix tree per block
// size. A path takes a word per trace block instead of a word per token.
//
// Read prompt.go, then list.go, tree.go, join.go, forget.go and hash.go.
package prompt

import (
	"fmt"
	"math"
)

// NodeID names a node of a Tree: a piece of a prompt together with its whole prefix. Ids are dense and count up from
// 0. The id of a child is larger than its parent's, except in a tree that forgets.
type NodeID int32

// None is the parent of a first node.
const None NodeID = -1

// maxNodes bounds the nodes of a tree, so that ids, and 1 + an id, fit in 31
// bits.
const maxNodes = math.MaxInt32 - 1

// checkNodes panics if a tree of have nodes cannot have one more.
func checkNodes(have int) {
	if have >= maxNodes {
		panic(fmt.Sprintf("prompt tree: more than %d nodes", maxNodes))
	}
}

// Prompt is a prompt as a path in a Tree.
type Prompt struct {
	// Nodes covers all tokens; the last node may be covered only partly. In a joined tree, Nodes covers only the full
	// engine blocks, and covers every node fully. Nodes is empty for a unique prompt.
	Nodes []NodeID
	// Blocks is the number of full engine blocks; the tokens after them fill no block. Node n has the blocks from
	// Tree.Start(n) up to Tree.End(n).
	Blocks int32
	// Seed is > 0 if the prompt is unique: it shares no block with any other prompt. The tokens of a unique prompt
	// are those of the synthetic request with index Seed - 1.
	Seed int32
}

// Unique reports whether the prompt shares no block with any other prompt.
func (p *Prompt) Unique() bool { return p.Seed > 0 }
