package blocks

import (
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/blockhash"
	"github.com/replay-llm/replay/sim/prompt"
)

// Names names the blocks of an engine in its events. A block of a shared prompt is named by its content. A block that
// only one request can have is named by the content of its unique prompt, or by a unique number.
type Names struct {
	tree    *prompt.Tree
	alone   bool // prefix caching is off, and blocks have no sequence hashes
	sources map[sim.RequestID]*source
}

// source is the data for the names of blocks that only one request can have.
type source struct {
	prompt prompt.Prompt
	// Hashes of the blocks of a unique prompt. Without prefix caching, sequence is nil.
	local, sequence []uint64
}

// NewNames returns the names of blocks of the prompts of tree. Without prefix caching (cached false), every block of
// a unique prompt has a unique name.
func NewNames(tree *prompt.Tree, cached bool) *Names {
	return &Names{tree: tree, alone: !cached, sources: make(map[sim.RequestID]*source)}
}

// Add registers r, so that the names of its blocks can be computed.
func (n *Names) Add(r *sim.Request) {
	s := &source{prompt: r.Prompt}
	if r.Prompt.Unique() {
		s.local, s.sequence = n.tree.Hashes(r.Prompt)
	}
	if n.alone {
		s.sequence = nil
	}
	n.sources[r.ID] = s
}

// Remove forgets a request after the last use of the names of its blocks.
func (n *Names) Remove(id sim.RequestID) { delete(n.sources, id) }

// Hashed reports whether the names of blocks that only this request can have depend on its prompt.
func (n *Names) Hashed(id sim.RequestID) bool { return len(n.sources[id].sequence) > 0 }

// Path returns the name of block i of a path.
func (n *Names) Path(path []prompt.NodeID, i int) uint64 {
	at := path[n.tree.Index(path, i)]
	return n.tree.SequenceHash(at, i-int(n.tree.Start(at)))
}

// Own returns the name of block i of a request, for a block that only this request can have. A name that is not a
// sequence hash is the hash of 16 bytes, which are never the tokens of a prompt's block.
func (n *Names) Own(id sim.RequestID, i int) uint64 {
	if s := n.sources[id]; s != nil && i < len(s.sequence) {
		return s.sequence[i]
	}
	return ownHash(id, i)
}

// Content returns the name of block i of a request by its content if the block belongs to a shared prompt. If the
// block belongs to an answer or a unique prompt, Content returns the name from Own.
func (n *Names) Content(id sim.RequestID, i int) uint64 {
	if s := n.sources[id]; s != nil && !s.prompt.Unique() && i < int(s.prompt.Blocks) {
		return n.Path(s.prompt.Nodes, i)
	}
	return n.Own(id, i)
}

// Tokens returns the hash of the tokens of block i of a request. A block with generated tokens, or of an unknown
// request, has a hash that no other block has.
func (n *Names) Tokens(id sim.RequestID, i int) uint64 {
	s := n.sources[id]
	switch {
	case s == nil || i >= int(s.prompt.Blocks):
		return OwnTokens(id, i)
	case s.prompt.Unique():
		return s.local[i]
	}
	return n.PathTokens(s.prompt.Nodes, i)
}

// PathTokens returns the hash of the tokens of block i of a path.
func (n *Names) PathTokens(path []prompt.NodeID, i int) uint64 {
	at := path[n.tree.Index(path, i)]
	return n.tree.LocalHash(at, i-int(n.tree.Start(at)))
}

// OwnTokens returns the number that replaces the hash of the tokens of block i of a request if some of these tokens
// are generated.
func OwnTokens(id sim.RequestID, i int) uint64 { return ownHash(id, i) | 1<<62 }

func ownHash(id sim.RequestID, i int) uint64 {
	return blockhash.Chain(^uint64(int64(id)), uint64(i)) | 1<<63
}
