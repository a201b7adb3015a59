package reference

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/blockhash"
)

// ledger records single tokens with separate hashes, like the reference. The hashes depend on the slot numbers of the
// pool. So the ledger stores the stack of free slots, and the slots of every request and of every node of the tree.
//
// A slot may be on the stack twice, because the reference's rules free slots that the tree owns.
type ledger struct {
	rank   int32
	tokens func(*sim.Request, []uint64) []uint64
	pass   *scheduler.Pass

	freed []int32 // free slots that were used before, last freed on top
	fresh int32   // slots from this number up were never used; they are below freed on the stack, lowest number on top
	total int32

	requests map[sim.RequestID][]int32 // slots of each request, in order
	nodes    radix.ByNode[int32]       // slots of each node
	gone     []int32                   // slots of the eviction in progress

	slotHash map[int32]uint64
	refs     map[uint64]int // number of slots by hash

	values []uint64 // scratch memory
	page   int32    // page size in tokens
	tree   *radix.Tree
}

func newLedger(c sglang.Config, t *radix.Tree) (*ledger, error) {
	if c.Tokens == nil {
		return nil, errors.New("events of single tokens need the token values of prompts: Tokens is nil")
	}
	return &ledger{
		rank: c.Rank, tokens: c.Tokens, total: int32(c.Pages * c.PageTokens), page: int32(c.PageTokens), tree: t,
		requests: make(map[sim.RequestID][]int32),
		slotHash: make(map[int32]uint64), refs: make(map[uint64]int),
	}, nil
}

func (l *ledger) begin(p *scheduler.Pass) { l.pass = p }

// allocSlots moves the top n slots of the stack to dst, the lowest first.
func (l *ledger) allocSlots(dst []int32, n int) []int32 {
	old := min(n, len(l.freed))
	untouched := int32(n - old)
	for i := l.fresh + untouched - 1; i >= l.fresh; i-- {
		dst = append(dst, i)
	}
	l.fresh += untouched
	dst = append(dst, l.freed[len(l.freed)-old:]...)
	l.freed = l.freed[:len(l.freed)-old]
	return dst
}

// prefilled allocates slots for the tokens of r from before to after. On the first chunk of r, earlier tokens have
// the slots of the tree.
func (l *ledger) prefilled(r *request, before, after int) {
	slots := l.requests[r.ID]
	if len(slots) < before {
		slots = l.pathSlots(r, slots[:0])
	}
	slots = l.allocSlots(slots, after-before)
	l.requests[r.ID] = slots
	l.values = l.values[:0]
	if before < r.InputTokens {
		l.values = l.tokens(r.Request, l.values)
		l.values = l.values[before:min(after, r.InputTokens)]
	}
	for i := before + len(l.values); i < after; i++ {
		l.values = append(l.values, r.seq.Token(i-r.InputTokens))
	}
	l.announceStored(slots[:before], slots[before:after])
}

// pathSlots appends the slots of the nodes that r has locked to dst.
func (l *ledger) pathSlots(r *request, dst []int32) []int32 {
	var path []int32
	for n := r.node; n != radix.Root; n = l.tree.At(n).Parent {
		path = append(path, n)
	}
	for i := len(path) - 1; i >= 0; i-- {
		dst = append(dst, l.nodes[path[i]]...)
	}
	return dst
}

// generated allocates a slot for the last token of r. In decode, the value of a token is the number of its slot.
func (l *ledger) generated(r *request, length int) {
	slots := l.allocSlots(l.requests[r.ID], 1)
	l.requests[r.ID] = slots
	l.values = append(l.values[:0], uint64(slots[length-1]))
	l.announceStored(slots[:length-1], slots[length-1:])
}

// announceStored publishes the tokens in l.values, in the given slots, after the tokens in the slots before.
func (l *ledger) announceStored(before, slots []int32) {
	var parent uint64
	hasParent := false
	if len(before) > 0 {
		parent, hasParent = l.slotHash[before[len(before)-1]]
	}
	blocks := make([]scheduler.KVBlock, len(slots))
	last := parent
	for i, slot := range slots {
		blocks[i].Tokens = tokenHash(l.values[i])
		last = sipChain(last, blocks[i].Tokens)
		blocks[i].Seq = last
		l.slotHash[slot] = last
		l.refs[last]++
	}
	for i := range blocks {
		if l.refs[blocks[i].Seq] != 1 {
			continue
		}
		if i > 0 {
			parent, hasParent = blocks[i-1].Seq, true
		}
		l.pass.Events = append(l.pass.Events, scheduler.KVEvent{
			Parent: parent, HasParent: hasParent, Stored: blocks[i:], Rank: l.rank,
		})
		return
	}
}

// released pushes the slots of r from index kept on onto the stack.
func (l *ledger) released(r *request, kept int) {
	slots := l.requests[r.ID]
	l.freed = append(l.freed, slots[kept:]...)
	l.announceRemoved(slots[kept:])
	l.requests[r.ID] = slots[:kept]
}

func (l *ledger) forgotten(r *request) { delete(l.requests, r.ID) }

// announceRemoved publishes that the tokens in the slots are gone.
func (l *ledger) announceRemoved(slots []int32) {
	var hashes []uint64
	for _, slot := range slots {
		h, ok := l.slotHash[slot]
		if !ok {
			continue
		}
		delete(l.slotHash, slot)
		switch n := l.refs[h]; {
		case n > 1:
			l.refs[h]--
		case n == 1:
			delete(l.refs, h)
			hashes = append(hashes, h)
		}
	}
	if len(hashes) > 0 {
		l.pass.Events = append(l.pass.Events, scheduler.KVEvent{Removed: hashes, Rank: l.rank})
	}
}

func (l *ledger) Stored(t *radix.Tree, n int32) {
	x := t.At(n)
	l.nodes.Set(n, slices.Clone(l.requests[x.Seq.Owner][x.From*l.page:x.To*l.page]))
}

func (l *ledger) Split(t *radix.Tree, upper, lower int32) {
	l.nodes.Split(upper, lower, t.At(upper).Size()*int(l.page))
}

// Removed collects the slots of removed pages. Slots of a grain are collected page by page, the last page first.
func (l *ledger) Removed(t *radix.Tree, n, from int32) {
	x := t.At(n)
	slots := l.nodes.Cut(n, int(from-x.From)*int(l.page))
	if !x.Grain {
		l.gone = append(l.gone, slots...)
		return
	}
	for end := len(slots); end > 0; end -= int(l.page) {
		l.gone = append(l.gone, slots[end-int(l.page):end]...)
	}
}

func (l *ledger) evicted() {
	l.freed = append(l.freed, l.gone...)
	l.announceRemoved(l.gone)
	l.gone = l.gone[:0]
}

// tokenHash returns the reference's hash of one token.
func tokenHash(v uint64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	return blockhash.Bytes(b[:])
}

// sipChain returns SipHash-1-3 with the key 0, 0 over 16 bytes: prev and local in little endian. The reference chains
// the hashes of tokens in this way.
func sipChain(prev, local uint64) uint64 {
	s := sip{0x736f6d6570736575, 0x646f72616e646f6d, 0x6c7967656e657261, 0x7465646279746573}
	const length = uint64(16) << 56
	for _, word := range [...]uint64{prev, local, length} {
		s[3] ^= word
		s.round()
		s[0] ^= word
	}
	s[2] ^= 0xff
	for range 3 {
		s.round()
	}
	return s[0] ^ s[1] ^ s[2] ^ s[3]
}

type sip [4]uint64

func (s *sip) round() {
	s[0] += s[1]
	s[2] += s[3]
	s[1] = bits.RotateLeft64(s[1], 13) ^ s[0]
	s[3] = bits.RotateLeft64(s[3], 16) ^ s[2]
	s[0] = bits.RotateLeft64(s[0], 32)
	s[2] += s[1]
	s[0] += s[3]
	s[1] = bits.RotateLeft64(s[1], 17) ^ s[2]
	s[3] = bits.RotateLeft64(s[3], 21) ^ s[0]
	s[2] = bits.RotateLeft64(s[2], 32)
}
