package reference_test

import "github.com/replay-llm/replay/sim"

// naiveSequence is a prompt and its answer as blocks.
type naiveSequence struct {
	size              int // tokens per block
	input, len        int
	generated, output int
	allocated         int // tokens covered by blocks held
	blocks            []naiveBlock
	locals, hashes    []uint64 // of the full blocks of the prompt
}

// naiveBlock is an entry of a sequence. One that is not full is known by a
// unique number in hash.
type naiveBlock struct {
	full  bool
	hash  uint64 // of the block and all before it
	local uint64 // of its tokens
	key   naiveKey
}

// newSequence names the blocks of a prompt.
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

// fullBlock returns block i of s with all its tokens: known by its content, or by a separate name when it holds generated tokens
// or caching is off.
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

// useFor lists the blocks to take to cover the first target tokens, and the
// block before them.
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

// grow appends a generated token. The token that opens a block makes the previous block a full one and needs a new one;
// grow reports whether there was one.
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

// undo takes back a grow that found no block; the full block stays one.
func (s *naiveSequence) undo() {
	s.len--
	s.generated--
	if s.len%s.size == 0 {
		s.blocks = s.blocks[:len(s.blocks)-1]
	}
}

func cdiv(a, b int) int { return (a + b - 1) / b }
