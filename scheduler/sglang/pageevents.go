package sglang

import (
	"encoding/binary"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/blockhash"
	"github.com/replay-llm/replay/sim/prompt"
)

// pageEvents records pages under the hashes that routers use themselves.
type pageEvents struct {
	prompts *prompt.Tree
	pass    *scheduler.Pass
	hashes  byNode[uint64] // sequence hashes of the pages of each node
	gone    []uint64       // of the eviction in progress
}

func newPageEvents(prompts *prompt.Tree) *pageEvents { return &pageEvents{prompts: prompts} }

func (e *pageEvents) begin(p *scheduler.Pass) { e.pass = p }

func (e *pageEvents) stored(t *tree, n int32) {
	x := t.at(n)
	event := scheduler.KVEvent{Stored: make([]scheduler.KVBlock, 0, x.size())}
	if x.parent != root {
		before := e.hashes[x.parent]
		event.Parent, event.HasParent = before[len(before)-1], true
	}
	own := make([]uint64, 0, x.size())
	last, chained := event.Parent, event.HasParent
	for i := x.from; i < x.to; i++ {
		local := e.localHash(t, &x.seq, i)
		if chained {
			last = blockhash.Chain(last, local)
		} else {
			last, chained = local, true
		}
		own = append(own, last)
		event.Stored = append(event.Stored, scheduler.KVBlock{Seq: last, Tokens: local})
	}
	e.hashes.set(n, own)
	e.pass.Events = append(e.pass.Events, event)
}

// localHash returns the hash of the tokens of page i of s.
func (e *pageEvents) localHash(t *tree, s *sequence, i int32) uint64 {
	switch {
	case i >= s.full:
		tokens := int32(e.prompts.BlockTokens())
		return generatedHash(s, max(0, i*tokens-s.prompt))
	case s.seed > 0:
		return e.prompts.UniqueHash(prompt.Prompt{Seed: s.seed}, int(i))
	}
	return e.prompts.LocalHash(s.nodes[i/t.perNode], int(i%t.perNode))
}

// generatedHash names a page by the first generated token in it, output i of
// its request, in a way that no page of a query hashes to.
func generatedHash(s *sequence, i int32) uint64 {
	return blockhash.Bytes(binary.LittleEndian.AppendUint64([]byte("gen"), generatedToken(s, int(i))))
}

// generatedToken returns the value of output i of a request.
func generatedToken(s *sequence, i int) uint64 {
	return 1<<63 | uint64(s.owner)<<32 | uint64(i)
}

func (e *pageEvents) split(t *tree, upper, lower int32) {
	e.hashes.split(upper, lower, t.at(upper).size())
}

func (e *pageEvents) removed(_ *tree, n int32) {
	e.gone = append(e.gone, e.hashes[n]...)
	e.hashes[n] = nil
}

func (e *pageEvents) evicted() {
	if len(e.gone) > 0 {
		e.pass.Events = append(e.pass.Events, scheduler.KVEvent{Removed: slices.Clone(e.gone)})
		e.gone = e.gone[:0]
	}
}

// byNode has a list for each node of a tree.
type byNode[T any] [][]T

// set makes list that of n.
func (b *byNode[T]) set(n int32, list []T) {
	for int(n) >= len(*b) {
		*b = append(*b, nil)
	}
	(*b)[n] = list
}

// split gives the first items of lower to upper.
func (b *byNode[T]) split(upper, lower int32, items int) {
	all := (*b)[lower]
	b.set(lower, all[items:])
	b.set(upper, all[:items:items])
}
