package prompt

import "encoding/binary"

// run is a number of consecutive tokens of one hash id.
type run struct {
	id     uint64
	tokens int32
}

// straddle interns engine blocks that do not line up with trace blocks: the
// content of a node is then a list of runs.
type straddle struct {
	leads  map[lead]NodeID  // the first node made for each lead
	number map[string]int32 // content number by the encoded runs of the content
	runs   [][]run          // runs of each content number
	key    []byte
	block  []run
}

// lead is the common key of sibling nodes that begin with the same token.
type lead struct {
	parent NodeID
	id     uint64
}

func newStraddle() *straddle {
	return &straddle{number: make(map[string]int32), leads: make(map[lead]NodeID)}
}

// Straddles reports whether nodes are engine blocks that do not line up with trace blocks.
func (t *Tree) Straddles() bool { return t.straddle != nil }

// Lead returns the first node made among the siblings of n that begin with the same token as n.
func (t *Tree) Lead(n NodeID) NodeID {
	if t.straddle == nil {
		return n // a node has one hash id
	}
	return t.straddle.leads[lead{t.parent[n], t.straddle.runs[t.content[n]][0].id}]
}

// AppendLeads appends the leads of nodes to dst.
func (t *Tree) AppendLeads(dst, nodes []NodeID) []NodeID {
	for _, n := range nodes {
		dst = append(dst, t.Lead(n))
	}
	return dst
}

// addStraddling interns a prompt given as hash ids.
func (t *Tree) addStraddling(ids []uint64, tokens int) []NodeID {
	s := t.straddle
	return t.addBlocks(tokens, func(from, to int) {
		for pos := from; pos < to; {
			i := pos / t.traceTokens
			end := min((i+1)*t.traceTokens, to)
			id := ids[i]
			if t.wrap {
				id = uint64(uint32(id))
			}
			if n := len(s.block); n > 0 && s.block[n-1].id == id {
				s.block[n-1].tokens += int32(end - pos)
			} else {
				s.block = append(s.block, run{id, int32(end - pos)})
			}
			pos = end
		}
	})
}

// addBlocks interns a prompt block by block. A tail that fills no block is a separate node. fill appends the tokens
// from from up to to to straddle.block.
func (t *Tree) addBlocks(tokens int, fill func(from, to int)) []NodeID {
	nodes := make([]NodeID, 0, (tokens+t.blockTokens-1)/t.blockTokens)
	at := None
	for from := 0; from < tokens; from += t.blockTokens {
		t.straddle.block = t.straddle.block[:0]
		fill(from, min(from+t.blockTokens, tokens))
		at = t.internChild(at, t.straddle.intern())
		l := lead{t.parent[at], t.straddle.block[0].id}
		if _, known := t.straddle.leads[l]; !known {
			t.straddle.leads[l] = at
		}
		nodes = append(nodes, at)
	}
	return nodes
}

// intern returns the number of the content in s.block.
func (s *straddle) intern() int32 {
	s.key = s.key[:0]
	for _, r := range s.block {
		s.key = binary.LittleEndian.AppendUint64(s.key, r.id)
		s.key = binary.LittleEndian.AppendUint32(s.key, uint32(r.tokens))
	}
	if n, ok := s.number[string(s.key)]; ok {
		return n
	}
	n := int32(len(s.runs))
	s.number[string(s.key)] = n
	s.runs = append(s.runs, append([]run(nil), s.block...))
	return n
}

// AddSynthetic interns the prompts of count synthetic requests of the given length. SyntheticToken draws the tokens
// of the prompts. The blocks of synthetic prompts differ, except for rare pairs of prompts that begin alike if a
// block has at most two tokens. Only such pairs get nodes; all other prompts are unique.
func (t *Tree) AddSynthetic(count, tokens int) *List {
	list := &List{count: count, alike: Prompt{Blocks: int32(tokens / t.blockTokens)}}
	if t.blockTokens > 2 || tokens < t.blockTokens {
		return list
	}
	prompts := make([]Prompt, count)
	for i := range prompts {
		prompts[i] = list.At(i)
	}
	list.plain = prompts
	if t.straddle == nil {
		t.straddle, t.perNode = newStraddle(), 1
	}
	seen := make(map[[2]uint32]int32, count)
	for i := range prompts {
		var key [2]uint32
		for k := range t.blockTokens {
			key[k] = SyntheticToken(i, k)
		}
		first, twin := seen[key]
		if !twin {
			seen[key] = int32(i)
			continue
		}
		for _, j := range []int32{first, int32(i)} {
			if prompts[j].Unique() {
				prompts[j] = Prompt{Blocks: prompts[j].Blocks, Nodes: t.addSynthetic(int(j), tokens)}
			}
		}
	}
	return list
}

func (t *Tree) addSynthetic(index, tokens int) []NodeID {
	return t.addBlocks(tokens, func(from, to int) {
		for pos := from; pos < to; pos++ {
			t.straddle.block = append(t.straddle.block, run{uint64(SyntheticToken(index, pos)), 1})
		}
	})
}

// SyntheticToken returns token t of the prompt of synthetic request i, computed by a SplitMix64 step over the pair
// (docs/rules/harness.md "Synthetic workloads").
func SyntheticToken(i, t int) uint32 {
	v := (uint64(i)<<32 ^ uint64(t)) + 0x9E3779B97F4A7C15
	v ^= v >> 30
	v *= 0xBF58476D1CE4E5B9
	v ^= v >> 27
	v *= 0x94D049BB133111EB
	v ^= v >> 31
	if uint32(v) == 0 {
		return 1
	}
	return uint32(v)
}

// Common returns the length of the common prefix of the prompts a and b, in tokens. The prompts have aTokens and
// bTokens tokens. Common does not support a joined tree.
func (t *Tree) Common(a, b Prompt, aTokens, bTokens int) int {
	if a.Unique() || b.Unique() {
		if a.Seed == b.Seed {
			return min(aTokens, bTokens)
		}
		return 0
	}
	limit := min(aTokens, bTokens)
	span := t.blockTokens * t.perNode
	i := 0
	for i < len(a.Nodes) && i < len(b.Nodes) && a.Nodes[i] == b.Nodes[i] {
		i++
	}
	common := i * span
	if t.straddle == nil || i == len(a.Nodes) || i == len(b.Nodes) {
		return min(common, limit)
	}
	x, y := t.straddle.runs[t.content[a.Nodes[i]]], t.straddle.runs[t.content[b.Nodes[i]]]
	for k := 0; k < len(x) && k < len(y) && x[k].id == y[k].id; k++ {
		common += int(min(x[k].tokens, y[k].tokens))
		if x[k].tokens != y[k].tokens {
			break
		}
	}
	return min(common, limit)
}
