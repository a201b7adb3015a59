package blocks

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// ID is the index of a block in a Catalog. Indices are reused.
type ID int32

// NoBlock is the ID of no block.
const NoBlock ID = -1

// Name identifies the content of a block.
type Name struct {
	owner int64 // the prompt node, or ^id of the only request that can have the block
	index int32 // index among the blocks of the node or of the request
}

// nodeName returns the name of a block of a prompt node.
func nodeName(n prompt.NodeID, index int32) Name { return Name{int64(n), index} }

// NameOf returns the name of block i of a request. The first shared blocks have the names of the nodes of path; later
// blocks have names that only this request uses.
func NameOf(tree *prompt.Tree, path []prompt.NodeID, shared int, id sim.RequestID, i int) Name {
	if i >= shared {
		return Name{^int64(id), int32(i)}
	}
	n := path[tree.Index(path, i)]
	return nodeName(n, int32(i)-tree.Start(n))
}

// Node returns the prompt node of the block and the index of the block in the node; ok is false for a block that only
// one request can have.
func (n Name) Node() (node prompt.NodeID, index int32, ok bool) {
	return prompt.NodeID(n.owner), n.index, n.owner >= 0
}

// Block is the catalog's entry for the content of one block, on the device, in host memory or both.
type Block struct {
	Name     Name
	Parent   ID    // the previous block; NoBlock with prefix caching off
	children int32 // blocks of the catalog with this block as Parent

	OnDevice bool  // the block is in a KV block of the device
	Holders  int32 // requests and fetches that use the block on the device
	Place    int32 // index on the device, for pools with an index
	sending  bool  // a transfer to host memory is queued or in progress
	inHost   bool  // the block is in host memory
	readers  int32 // fetches that read the block in host memory

	Hashes Hashes // only if events are captured
}

// Hashes is the data of a block for events, kept for the time after its request has ended.
type Hashes struct {
	scheduler.KVBlock
	Parent  uint64 // sequence hash of the previous block
	Follows bool   // the block has a previous block
}

// isNeeded reports whether the block must stay in the catalog.
func (b *Block) isNeeded() bool { return b.OnDevice || b.sending || b.inHost || b.children > 0 }

// Sending reports whether a transfer of the block to host memory is queued or in progress.
func (b *Block) Sending() bool { return b.sending }

// Catalog contains the blocks that are on the device or in host memory, and the ancestors of these blocks.
type Catalog struct {
	blocks []Block
	unused []ID
	byName map[Name]ID
}

func newCatalog() *Catalog { return &Catalog{byName: make(map[Name]ID)} }

// At returns the entry of b.
func (k *Catalog) At(b ID) *Block { return &k.blocks[b] }

// Find returns the block of that name, or NoBlock.
func (k *Catalog) Find(name Name) ID {
	if b, ok := k.byName[name]; ok {
		return b
	}
	return NoBlock
}

// Add returns the block of that name and adds it if it is new.
func (k *Catalog) Add(name Name, parent ID) (b ID, isNew bool) {
	if b, ok := k.byName[name]; ok {
		return b, false
	}
	if n := len(k.unused); n > 0 {
		b = k.unused[n-1]
		k.unused = k.unused[:n-1]
	} else {
		b = ID(len(k.blocks))
		k.blocks = append(k.blocks, Block{})
	}
	k.blocks[b] = Block{Name: name, Parent: parent}
	k.byName[name] = b
	if parent != NoBlock {
		k.blocks[parent].children++
	}
	return b, true
}

// Drop removes b if b is neither on the device nor in host memory, and then its ancestors that are no longer needed.
func (k *Catalog) Drop(b ID) {
	for b != NoBlock && !k.blocks[b].isNeeded() {
		parent := k.blocks[b].Parent
		delete(k.byName, k.blocks[b].Name)
		k.unused = append(k.unused, b)
		if parent != NoBlock {
			k.blocks[parent].children--
		}
		b = parent
	}
}

// Blocks yields every block that isNeeded.
func (k *Catalog) Blocks(yield func(ID, *Block) bool) {
	for b := range k.blocks {
		if x := &k.blocks[b]; x.isNeeded() && !yield(ID(b), x) {
			return
		}
	}
}
