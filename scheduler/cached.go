package scheduler

import (
	"fmt"

	"github.com/replay-llm/replay/sim/prompt"
)

// Cache is the content of the prefix cache of a core, assuming that all requests on the core leave now.
type Cache struct {
	// Blocks are in the order of eviction for vLLM. For SGLang blocks are in the order of least recent use; SGLang
	// evicts a leaf of the tree before its parent.
	Blocks []CachedBlocks

	// Decodes is the number of decode passes since an SGLang engine last published its cache. Attempts is the number
	// of its attempts to admit requests since it last renewed the ages of waiting requests.
	Decodes, Attempts int
}

// CachedBlocks are consecutive KV blocks of a sequence: its blocks From to To-1. The last block is evicted first.
type CachedBlocks struct {
	// Node is the prompt node with the last block, or with the last of the Shared blocks. Node is None if no prompt
	// has any of these blocks.
	Node     prompt.NodeID
	From, To int32
	// Copy is above 0 for vLLM blocks with the same content as another cached block, which lookups find instead. The
	// copies of one content count up from 1, in the order in which lookups find them.
	Copy int32
	// Own, if above 0, is the number of a sequence with unique blocks after its first Shared blocks. Blocks of vLLM
	// that no request can find have Node None, From 0 and Own 0.
	Own, Shared int32
	// Blank blocks have no content, but have a position in the order of eviction.
	Blank bool
}

// CacheError reports blocks that a cache cannot contain.
type CacheError struct {
	Index  int // index in Cache.Blocks
	Reason string
}

func (e *CacheError) Error() string { return fmt.Sprintf("cached blocks %d: %s", e.Index, e.Reason) }
