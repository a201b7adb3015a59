package reference_test

import "github.com/replay-llm/replay/sim"

// naiveSequence is a prompt and its answer as blocks.
type naiveSequence struct {
	size              int // tokens per block
	input, len        int
	generated, output int
	allocated         int // number of tokens in held blocks
	blocks            []naiveBlock
	locals, hashes    []uint64 // hashes of the full blocks of the prompt
}

// naiveBlock is an entry of a sequence. A partial block has a unique number as its hash.
type naiveBlock struct {
	full  bool
	hash  uint64 // hash of the block and all blocks before it
	local uint64 // hash of the tokens in the block
	key   naiveKey
}

// newSequence returns the blocks of a prompt with their names.
func (n *naive) newSequence(r *sim.Request) *naiveSequence {
	s := &naiveSequence{size: n.config.BlockTokens, input: r.InputTokens, len: r.InputTokens, output: r.OutputTokens}
	s.locals, s.hashes = n.config.Tree.Hashes(r.Prompt)
	for i := range s.input / s.size {
		s.blocks = append(s.blocks, n.fullBlock(s, i))
	}
	if s.input%s.size != 0 {
		s.blocks = append(s.blocks, naiveBlock{hash: n.pool.unique()})
	}
	return s
}

// fullBlock returns block i of s as a full block. The name of the block is unique if the block contains generated
// tokens or caching is off, and depends on the content otherwise.
func (n *naive) fullBlock(s *naiveSequence, i int) naiveBlock {
	b := naiveBlock{full: true, hash: n.pool.unique()}
	b.local = b.hash
	b.key = naiveKey{position: i, content: b.hash}
	if i < len(s.locals) {
		b.local = s.locals[i]
	}
	if !n.config.PrefixCaching {
		return b
	}
	if i < len(s.hashes) {
		b.hash, b.key.content = s.hashes[i], s.hashes[i]
	}
	if i > 0 {
		b.key.parent, b.key.hasParent = s.blocks[i-1].hash, true
	}
	return b
}

// useFor returns the blocks to allocate for the first target tokens, and the block before them.
func (s *naiveSequence) useFor(target int) ([]naiveBlock, *naiveBlock) {
	p := min(cdiv(s.allocated, s.size), len(s.blocks))
	q := min(cdiv(target, s.size), len(s.blocks))
	if q <= p {
		return nil, nil
	}
	if p == 0 {
		return s.blocks[:q], nil
	}
	return s.blocks[p:q], &s.blocks[p-1]
}

// grow appends a generated token. A token that opens a block makes the previous block full and requires a new block.
// grow reports false if no block was available.
func (n *naive) grow(s *naiveSequence) bool {
	s.len++
	s.generated++
	if s.len%s.size != 1 {
		return true
	}
	if last := len(s.blocks) - 1; !s.blocks[last].full {
		var parent *naiveBlock
		if last > 0 {
			parent = &s.blocks[last-1]
		}
		partial := s.blocks[last]
		s.blocks[last] = n.fullBlock(s, last)
		n.pool.promote(partial, s.blocks[last], parent)
	}
	s.blocks = append(s.blocks, naiveBlock{hash: n.pool.unique()})
	return n.pool.use(s.blocks[len(s.blocks)-1:], nil) == 1
}

// undo removes the token of a grow that returned false. The previous block remains full.
func (s *naiveSequence) undo() {
	s.len--
	s.generated--
	if s.len%s.size == 0 {
		s.blocks = s.blocks[:len(s.blocks)-1]
	}
}

func cdiv(a, b int) int { return (a + b - 1) / b }
