package prompt

import (
	"encoding/binary"

	"github.com/replay-llm/replay/blockhash"
)

// hashes remembers the hashes of nodes, computed when first asked for.
type hashes struct {
	local []uint64 // by content number; all engine blocks of a node are alike
	have  []bool
	last  []uint64 // by node: sequence hash of the node's last block
	known []bool
}

// LocalHash is the hash of the tokens of any engine block of n.
func (t *Tree) LocalHash(n NodeID) uint64 {
	c := t.content[n]
	for int(c) >= len(t.hashes.have) {
		t.hashes.local = append(t.hashes.local, 0)
		t.hashes.have = append(t.hashes.have, false)
	}
	if !t.hashes.have[c] {
		t.hashes.local[c], t.hashes.have[c] = t.hashContent(c), true
	}
	return t.hashes.local[c]
}

func (t *Tree) hashContent(c int32) uint64 {
	if t.straddle != nil {
		var b []byte
		for _, r := range t.straddle.runs[c] {
			b = appendTokens(b, r.id, int(r.tokens))
		}
		return blockhash.Bytes(b)
	}
	return blockhash.Bytes(appendTokens(nil, t.contents.ids[c], t.blockTokens))
}

// appendTokens writes the tokens of a hash id: the id itself as a 32-bit token,
// or as 64 bits each where it does not fit, so that wide ids stay distinct.
func appendTokens(b []byte, id uint64, count int) []byte {
	for range count {
		if id>>32 == 0 {
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		} else {
			b = binary.LittleEndian.AppendUint64(b, id)
		}
	}
	return b
}

// SequenceHash is the hash of engine block k of n and everything before it.
func (t *Tree) SequenceHash(n NodeID, k int) uint64 {
	local := t.LocalHash(n)
	var h uint64
	first := true
	if p := t.parent[n]; p != None {
		h, first = t.lastHash(p), false
	}
	for range k + 1 {
		if first {
			h, first = local, false
		} else {
			h = blockhash.Chain(h, local)
		}
	}
	return h
}

// lastHash is the sequence hash of the last engine block of n.
func (t *Tree) lastHash(n NodeID) uint64 {
	for len(t.hashes.known) < len(t.parent) {
		t.hashes.last = append(t.hashes.last, 0)
		t.hashes.known = append(t.hashes.known, false)
	}
	if !t.hashes.known[n] {
		// Ancestors first, without recursion: paths can be long.
		var path []NodeID
		for m := n; m != None && !t.hashes.known[m]; m = t.parent[m] {
			path = append(path, m)
		}
		for i := len(path) - 1; i >= 0; i-- {
			t.hashes.last[path[i]] = t.SequenceHash(path[i], t.perNode-1)
			t.hashes.known[path[i]] = true
		}
	}
	return t.hashes.last[n]
}

// UniqueHash is the local hash of engine block k of the unique prompt p.
func (t *Tree) UniqueHash(p Prompt, k int) uint64 {
	b := make([]byte, 0, 4*t.blockTokens)
	for i := range t.blockTokens {
		b = binary.LittleEndian.AppendUint32(b, SyntheticToken(int(p.Seed-1), k*t.blockTokens+i))
	}
	return blockhash.Bytes(b)
}

// Hashes returns the local and the sequence hashes of the full engine blocks of
// p.
func (t *Tree) Hashes(p Prompt) (local, sequence []uint64) {
	local = make([]uint64, p.Blocks)
	for i := range local {
		if p.Unique() {
			local[i] = t.UniqueHash(p, i)
		} else {
			local[i] = t.LocalHash(p.Nodes[i/t.perNode])
		}
	}
	return local, blockhash.Sequence(local)
}
