package kvevents

import (
	"maps"
	"slices"

	"github.com/replay-llm/replay/scheduler"
)

// cached tracks the cached blocks from the published events. For each block, cached stores the block's name, its
// parent's name and the hash of its tokens.
type cached struct {
	blocks []cachedBlock // cached blocks in the order of their first store
	at     map[blockName]int32
	gone   int // number of removed blocks that are still in blocks
}

// cache is one of the caches of a publisher: a memory of a rank.
type cache struct {
	rank int32
	tier scheduler.Tier
}

// blockName identifies a block in a cache.
type blockName struct {
	cache
	hash uint64
}

type cachedBlock struct {
	blockName
	tokens    uint64
	parent    uint64
	hasParent bool
	gone      bool
	copies    int32 // number of further blocks of this name
}

func newCached() *cached { return &cached{at: make(map[blockName]int32)} }

// applyEvent applies an event. A block that is stored again keeps its position. A block is removed after as many
// removals as stores.
func (k *cached) applyEvent(e *scheduler.KVEvent) {
	in := cache{e.Rank, e.Tier}
	parent, hasParent := e.Parent, e.HasParent
	for _, b := range e.Stored {
		k.storeBlock(cachedBlock{blockName: blockName{in, b.Seq}, tokens: b.Tokens, parent: parent, hasParent: hasParent})
		parent, hasParent = b.Seq, true
	}
	for _, h := range e.Removed {
		k.removeBlock(blockName{in, h})
	}
}

func (k *cached) storeBlock(b cachedBlock) {
	if i, ok := k.at[b.blockName]; ok {
		b.copies = k.blocks[i].copies + 1
		k.blocks[i] = b
		return
	}
	k.at[b.blockName] = int32(len(k.blocks))
	k.blocks = append(k.blocks, b)
}

// minGone is the number of removed blocks below which closeGaps is not worth its time.
const minGone = 1024

func (k *cached) removeBlock(name blockName) {
	i, ok := k.at[name]
	if !ok {
		return
	}
	if b := &k.blocks[i]; b.copies > 0 {
		b.copies--
		return
	}
	delete(k.at, name)
	k.blocks[i].gone = true
	if k.gone++; k.gone > minGone && 2*k.gone > len(k.blocks) {
		k.closeGaps()
	}
}

// closeGaps deletes the removed blocks from blocks.
func (k *cached) closeGaps() {
	k.blocks = slices.DeleteFunc(k.blocks, func(b cachedBlock) bool { return b.gone })
	for i := range k.blocks {
		k.at[k.blocks[i].blockName] = int32(i)
	}
	k.gone = 0
}

// orderedBlocks returns the blocks with a path to a root, each as often as it was stored. The blocks are sorted by
// rank, depth and order of their first store, so that parents precede their children. Blocks without a path to a root
// are omitted.
func (k *cached) orderedBlocks() []*cachedBlock {
	roots := make(map[int32][]int32) // indices of the roots by rank
	child := make([]int32, len(k.blocks))
	sibling := make([]int32, len(k.blocks)) // indexes + 1; 0: none
	for i := range k.blocks {
		b := &k.blocks[i]
		if b.gone {
			continue
		}
		if !b.hasParent {
			roots[b.rank] = append(roots[b.rank], int32(i))
		} else if parent, ok := k.at[blockName{b.cache, b.parent}]; ok {
			sibling[i], child[parent] = child[parent], int32(i)+1
		}
	}
	out := make([]*cachedBlock, 0, len(k.at))
	for _, rank := range slices.Sorted(maps.Keys(roots)) {
		for level, next := roots[rank], []int32(nil); len(level) > 0; level, next = next, level[:0] {
			for _, i := range level {
				for range 1 + k.blocks[i].copies {
					out = append(out, &k.blocks[i])
				}
				for c := child[i]; c != 0; c = sibling[c-1] {
					next = append(next, c-1)
				}
			}
			slices.Sort(next)
		}
	}
	return out
}
