package kvevents

import (
	"maps"
	"slices"

	"github.com/replay-llm/replay/scheduler"
)

// cached knows which blocks are cached, from the events published so far.
//
// A block costs its name, its parent's and the hash of its tokens.
type cached struct {
	blocks []cachedBlock // in the order in which they were stored first
	at     map[blockName]int32
	gone   int // blocks that are not there any more
}

// cache is one of the caches behind a publisher: a rank's memory.
type cache struct {
	rank int32
	tier scheduler.Tier
}

// blockName names a block in a cache.
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
}

func newCached() *cached { return &cached{at: make(map[blockName]int32)} }

// applyChange takes in a change. A block stored again keeps its place.
func (k *cached) applyChange(c *Change) {
	if c.Clear {
		clear(k.at)
		k.blocks, k.gone = k.blocks[:0], 0
		return
	}
	e := &c.Event
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
		k.blocks[i] = b
		return
	}
	k.at[b.blockName] = int32(len(k.blocks))
	k.blocks = append(k.blocks, b)
}

// minGone is the number of gaps that are not worth closing.
const minGone = 1024

func (k *cached) removeBlock(name blockName) {
	i, ok := k.at[name]
	if !ok {
		return
	}
	delete(k.at, name)
	k.blocks[i].gone = true
	if k.gone++; k.gone > minGone && 2*k.gone > len(k.blocks) {
		k.closeGaps()
	}
}

// closeGaps closes the gaps.
func (k *cached) closeGaps() {
	k.blocks = slices.DeleteFunc(k.blocks, func(b cachedBlock) bool { return b.gone })
	for i := range k.blocks {
		k.at[k.blocks[i].blockName] = int32(i)
	}
	k.gone = 0
}

// Depths of blocks that have none.
const (
	depthUnknown = -1
	orphaned     = -2
)

// orderedBlocks lists the blocks that hang on a root, parents before their children:
// by rank, then by depth, and among equals in the order in which they were
// stored.
func (k *cached) orderedBlocks() []*cachedBlock {
	depth := make([]int32, len(k.blocks))
	for i := range depth {
		depth[i] = depthUnknown
	}
	var path []int32
	byRank := make(map[int32]*levels)
	for i := range k.blocks {
		b := &k.blocks[i]
		if b.gone {
			continue
		}
		if path = k.measureDepth(int32(i), depth, path[:0]); depth[i] >= 0 {
			if byRank[b.rank] == nil {
				byRank[b.rank] = new(levels)
			}
			byRank[b.rank].countDepth(depth[i])
		}
	}
	at := int32(0)
	for _, rank := range slices.Sorted(maps.Keys(byRank)) {
		at = byRank[rank].layOut(at)
	}
	out := make([]*cachedBlock, at)
	for i := range k.blocks {
		if b := &k.blocks[i]; !b.gone && depth[i] >= 0 {
			out[byRank[b.rank].nextPlace(depth[i])] = b
		}
	}
	return out
}

// levels counts the blocks of each depth, and then says where the next of them
// goes.
type levels []int32

func (l *levels) countDepth(depth int32) {
	for int(depth) >= len(*l) {
		*l = append(*l, 0)
	}
	(*l)[depth]++
}

// layOut puts the levels one after the other from at, and returns where they end.
func (l levels) layOut(at int32) int32 {
	for d, n := range l {
		l[d], at = at, at+n
	}
	return at
}

func (l levels) nextPlace(depth int32) int32 {
	l[depth]++
	return l[depth] - 1
}

// measureDepth finds the depth of a block and of those before it. A block whose
// parents lead to a gap, or round in a circle, is orphaned.
func (k *cached) measureDepth(i int32, depth, path []int32) []int32 {
	const walking = -3
	at := int32(orphaned) // the depth of what the walk ends at
	for {
		if depth[i] == walking {
			break
		}
		if depth[i] != depthUnknown {
			at = depth[i]
			break
		}
		depth[i] = walking
		path = append(path, i)
		b := &k.blocks[i]
		if !b.hasParent {
			at = -1
			break
		}
		parent, ok := k.at[blockName{b.cache, b.parent}]
		if !ok {
			break
		}
		i = parent
	}
	for n := len(path) - 1; n >= 0; n-- {
		if at != orphaned {
			at++
		}
		depth[path[n]] = at
	}
	return path
}
