package prompt

import (
	"encoding/binary"

	"github.com/replay-llm/replay/sim/blockhash"
)

// hashes caches the hashes of nodes, computed at first use.
type hashes struct {
	local []uint64 // local hash of each content number
	have  []bool
	last  []uint64 // sequence hash of the last block of each node
	known []bool
}

// forget forgets the hash of a node.
func (h *hashes) forget(n NodeID) {
	if int(n) < len(h.known) {
		h.known[n] = false
	}
}

// LocalHash returns the hash of the tokens of engine block k of n.
func (t *Tree) LocalHash(n NodeID, k int) uint64 {
	if t.forgetful != nil && t.hashed {
		return t.forgetful.ids[n] // the hash id of a node is the hash of its block
	}
	c := t.contentOf(n, k)
	for int(c) >= len(t.hashes.have) {
		t.hashes.local = append(t.hashes.local, 0)
		t.hashes.have = append(t.hashes.have, false)
	}
	if !t.hashes.have[c] {
		t.hashes.local[c], t.hashes.have[c] = t.hashContent(c), true
	}
	return t.hashes.local[c]
}

// contentOf returns the content number of engine block k of n.
func (t *Tree) contentOf(n NodeID, k int) int32 {
	if t.perNode > 0 {
		return t.content[n] // all blocks of a node are alike
	}
	ids, _ := t.source(int(t.owner[n]))
	id := ids[(int(t.extents[n].start)+k)/(t.traceTokens/t.blockTokens)]
	if t.wrap {
		id = uint64(uint32(id))
	}
	return t.contents.intern(id)
}

func (t *Tree) hashContent(c int32) uint64 {
	if t.hashed {
		return t.contents.ids[c]
	}
	if t.straddle != nil {
		var b []byte
		for _, r := range t.straddle.runs[c] {
			b = appendTokens(b, r.id, int(r.tokens))
		}
		return blockhash.Bytes(b)
	}
	return blockhash.Bytes(appendTokens(nil, t.contents.ids[c], t.blockTokens))
}

// appendTokens appends the tokens of a hash id: count copies of the id, as 32 bits, or as 64 bits if it does not fit
// in 32, so that wide ids stay distinct.
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

// SequenceHash returns the hash of engine block k of n and everything before it.
func (t *Tree) SequenceHash(n NodeID, k int) uint64 {
	var h uint64
	first := true
	if p := t.parent[n]; p != None {
		h, first = t.lastHash(p), false
	}
	for i := range k + 1 {
		local := t.LocalHash(n, i)
		if first {
			h, first = local, false
		} else {
			h = blockhash.Chain(h, local)
		}
	}
	return h
}

// lastHash returns the sequence hash of the last engine block of n.
func (t *Tree) lastHash(n NodeID) uint64 {
	for len(t.hashes.known) < len(t.parent) {
		t.hashes.last = append(t.hashes.last, 0)
		t.hashes.known = append(t.hashes.known, false)
	}
	if !t.hashes.known[n] {
		// Hash ancestors first, without recursion, as paths can be long.
		var path []NodeID
		for m := n; m != None && !t.hashes.known[m]; m = t.parent[m] {
			path = append(path, m)
		}
		for i := len(path) - 1; i >= 0; i-- {
			t.hashes.last[path[i]] = t.SequenceHash(path[i], int(t.Size(path[i]))-1)
			t.hashes.known[path[i]] = true
		}
	}
	return t.hashes.last[n]
}

// UniqueHash returns the local hash of engine block k of the unique prompt p.
func (t *Tree) UniqueHash(p Prompt, k int) uint64 {
	b := make([]byte, 0, 4*t.blockTokens)
	for i := range t.blockTokens {
		b = binary.LittleEndian.AppendUint32(b, SyntheticToken(int(p.Seed-1), k*t.blockTokens+i))
	}
	return blockhash.Bytes(b)
}

// HashAll computes the hashes of all nodes. After that, any number of goroutines may read hashes concurrently, as
// long as no prompt is added.
func (t *Tree) HashAll() {
	for n := range t.parent {
		t.lastHash(NodeID(n))
	}
}

// Hashes returns the local and the sequence hashes of the full engine blocks of
// p.
func (t *Tree) Hashes(p Prompt) (local, sequence []uint64) {
	if p.Unique() {
		local = make([]uint64, p.Blocks)
		for i := range local {
			local[i] = t.UniqueHash(p, i)
		}
	} else {
		local = t.AppendLocal(make([]uint64, 0, p.Blocks), &p)
	}
	return local, blockhash.Sequence(local)
}

// AppendLocal appends to dst the local hashes of the full engine blocks of p,
// which is not unique.
func (t *Tree) AppendLocal(dst []uint64, p *Prompt) []uint64 {
	for _, n := range t.Full(p) {
		for k := range min(t.Size(n), p.Blocks-t.Start(n)) {
			dst = append(dst, t.LocalHash(n, int(k)))
		}
	}
	return dst
}
