package scheduler

import (
	"fmt"

	"github.com/replay-llm/replay/sim/prompt"
)

// Cache is what the prefix cache of a core holds, as if all requests on it left now.
type Cache struct {
	// Blocks are in the order of eviction by vLLM, and of least recent use by SGLang, which evicts a leaf of the tree
	// before its parent.
	Blocks []CachedBlocks

	// Decodes is the number of decode passes since an SGLang engine last published its cache, and Attempts that of its
	// attempts to admit requests since it last renewed the ages of waiting ones.
	Decodes, Attempts int
}

// CachedBlocks are KV blocks that follow each other in a sequence: its blocks From to To-1, of
// which the last is evicted first.
type CachedBlocks struct {
	// Node is the prompt node with the last of them, or of Shared; None where no prompt has any.
	Node     prompt.NodeID
	From, To int32
	// Copy is above 0 for blocks of vLLM with the content of a block that is found: the copies of
	// one content count up from 1, and are found in that order.
	Copy int32
	// Own, where it is above 0, is the number of a sequence that alone has its blocks after the first Shared. Blocks of vLLM that
	// no request can find have Node None, From 0 and no number.
	Own, Shared int32
	// Blank blocks hold nothing; they stand in line all the same.
	Blank bool
}

// CacheError reports blocks that no cache can hold.
type CacheError struct {
	Index  int // in Cache.Blocks
	Reason string
}

func (e *CacheError) Error() string { return fmt.Sprintf("cached blocks %d: %s", e.Index, e.Reason) }
