package reference

import "github.com/replay-llm/replay/sim/prompt"

// blockID is a block's place in a catalog. Places are used again.
type blockID int32

const noBlock blockID = -1

// blockName says what a block holds.
type blockName struct {
	owner int64 // the prompt node, or ^id of the only request that can name it
	index int32 // among the node's blocks, or in the request's list
}

// block is what is known of a block's content, wherever that lies.
type block struct {
	name     blockName
	parent   blockID // the block before it; noBlock with prefix caching off
	children int32   // blocks of the catalog that have it as parent

	onGPU   bool  // in a KV block of the GPU
	holders int32 // requests and swap-ins that hold it there
	sending bool  // on its way to host memory
	inHost  bool  // in host memory
	readers int32 // swap-ins that read it there

	hashes blockHashes // while events are captured
}

// needed says that the block must stay in the catalog.
func (b *block) needed() bool { return b.onGPU || b.sending || b.inHost || b.children > 0 }

// node is the prompt node the block is of.
func (b *block) node() (n prompt.NodeID, ok bool) {
	return prompt.NodeID(b.name.owner), b.name.owner >= 0
}

// catalog knows the blocks that are somewhere, and those before them.
type catalog struct {
	blocks []block
	unused []blockID
	byName map[blockName]blockID
}

func newCatalog() catalog { return catalog{byName: make(map[blockName]blockID)} }

// find is the block of that name, or noBlock.
func (k *catalog) find(name blockName) blockID {
	if b, ok := k.byName[name]; ok {
		return b
	}
	return noBlock
}

// add is the block of that name, taken in when it is new.
func (k *catalog) add(name blockName, parent blockID) (b blockID, isNew bool) {
	if b, ok := k.byName[name]; ok {
		return b, false
	}
	if n := len(k.unused); n > 0 {
		b = k.unused[n-1]
		k.unused = k.unused[:n-1]
	} else {
		b = blockID(len(k.blocks))
		k.blocks = append(k.blocks, block{})
	}
	k.blocks[b] = block{name: name, parent: parent}
	k.byName[name] = b
	if parent != noBlock {
		k.blocks[parent].children++
	}
	return b, true
}

// drop forgets b if it is nowhere any more, and with it those before it that
// were kept for its sake.
func (k *catalog) drop(b blockID) {
	for b != noBlock && !k.blocks[b].needed() {
		parent := k.blocks[b].parent
		delete(k.byName, k.blocks[b].name)
		k.unused = append(k.unused, b)
		if parent != noBlock {
			k.blocks[parent].children--
		}
		b = parent
	}
}
