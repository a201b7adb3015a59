package blocks

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// ID is a block's place in a Catalog. Places are used again.
type ID int32

// NoBlock is the place of no block.
const NoBlock ID = -1

// Name is what a block holds.
type Name struct {
	owner int64 // the prompt node, or ^id of the only request that can name it
	index int32 // among the node's blocks, or in the request's list
}

// nodeName returns the name of a block of a prompt node.
func nodeName(n prompt.NodeID, index int32) Name { return Name{int64(n), index} }

// NameOf returns the name of block i of a request. The first shared blocks are those of a path, the rest have names
// that only the request has.
func NameOf(tree *prompt.Tree, path []prompt.NodeID, shared int, id sim.RequestID, i int) Name {
	if i >= shared {
		return Name{^int64(id), int32(i)}
	}
	n := path[tree.Index(path, i)]
	return nodeName(n, int32(i)-tree.Start(n))
}

// Node returns the prompt node the block is of and its place there; ok is false
// for a block of a request's own.
func (n Name) Node() (node prompt.NodeID, index int32, ok bool) {
	return prompt.NodeID(n.owner), n.index, n.owner >= 0
}

// Block has the known facts of a block's content, wherever that lies.
type Block struct {
	Name     Name
	Parent   ID    // the block before it; NoBlock with prefix caching off
	children int32 // blocks of the catalog that have it as parent

	OnDevice bool  // in a KV block of the device
	Holders  int32 // requests and fetches that hold it there
	Place    int32 // where there, for pools that have it
	sending  bool  // on its way to host memory
	inHost   bool  // in host memory
	readers  int32 // fetches that read it there

	Hashes Hashes // while events are captured
}

// Hashes is what events report of a block, kept for when its request is gone.
type Hashes struct {
	scheduler.KVBlock
	Parent  uint64 // sequence hash of the block before it
	Follows bool   // there is one
}

// isNeeded reports whether the block must stay in the catalog.
func (b *Block) isNeeded() bool { return b.OnDevice || b.sending || b.inHost || b.children > 0 }

// Sending reports whether a copy of the block is on its way to host memory.
func (b *Block) Sending() bool { return b.sending }

// Catalog knows the blocks that are somewhere, and those before them.
type Catalog struct {
	blocks []Block
	unused []ID
	byName map[Name]ID
}

func newCatalog() *Catalog { return &Catalog{byName: make(map[Name]ID)} }

// At returns the known facts of b.
func (k *Catalog) At(b ID) *Block { return &k.blocks[b] }

// Find returns the block of that name, or NoBlock.
func (k *Catalog) Find(name Name) ID {
	if b, ok := k.byName[name]; ok {
		return b
	}
	return NoBlock
}

// Add returns the block of that name, taken in when it is new.
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

// Drop forgets b if it is nowhere any more, and with it those before it that
// were kept for its sake.
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

// Blocks yields every block that is somewhere.
func (k *Catalog) Blocks(yield func(ID, *Block) bool) {
	for b := range k.blocks {
		if x := &k.blocks[b]; x.isNeeded() && !yield(ID(b), x) {
			return
		}
	}
}
