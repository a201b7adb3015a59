package sglang

import (
	"encoding/binary"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim/blockhash"
	"github.com/replay-llm/replay/sim/prompt"
)

// pageEvents records pages by the hashes that routers compute themselves.
type pageEvents struct {
	prompts *prompt.Tree
	hashes  radix.ByNode[uint64] // sequence hashes of the pages of each node
	events  []scheduler.KVEvent  // unpublished events
}

func newPageEvents(prompts *prompt.Tree) *pageEvents { return &pageEvents{prompts: prompts} }

func (e *pageEvents) publish(p *scheduler.Pass) {
	p.Events = append(p.Events, e.events...)
	clear(e.events)
	e.events = e.events[:0]
}

func (e *pageEvents) waits() bool { return len(e.events) > 0 }

func (e *pageEvents) nodes(func(prompt.NodeID)) {} // unpublished events contain hashes, not nodes

// latest returns the previous event, so that the caller can join the next change to it: a removal, or pages after its
// last page.
func (e *pageEvents) latest() *scheduler.KVEvent {
	if len(e.events) == 0 {
		return &scheduler.KVEvent{}
	}
	return &e.events[len(e.events)-1]
}

func (e *pageEvents) Stored(t *radix.Tree, n int32) {
	x := t.At(n)
	event := scheduler.KVEvent{Stored: make([]scheduler.KVBlock, 0, x.Size())}
	if x.Parent != radix.Root {
		before := e.hashes[x.Parent]
		event.Parent, event.HasParent = before[len(before)-1], true
	}
	own := make([]uint64, 0, x.Size())
	last, chained := event.Parent, event.HasParent
	for i := x.From; i < x.To; i++ {
		local := e.localHash(t, &x.Seq, i)
		if chained {
			last = blockhash.Chain(last, local)
		} else {
			last, chained = local, true
		}
		own = append(own, last)
		event.Stored = append(event.Stored, scheduler.KVBlock{Seq: last, Tokens: local})
	}
	e.hashes.Set(n, own)
	if l := e.latest(); event.HasParent && len(l.Stored) > 0 && l.Stored[len(l.Stored)-1].Seq == event.Parent {
		l.Stored = append(l.Stored, event.Stored...)
		return
	}
	e.events = append(e.events, event)
}

// localHash returns the hash of the tokens of page i of s.
func (e *pageEvents) localHash(t *radix.Tree, s *radix.Sequence, i int32) uint64 {
	switch {
	case i >= s.Full:
		tokens := int32(e.prompts.BlockTokens())
		return generatedHash(s, max(0, i*tokens-s.Prompt))
	case s.Seed > 0:
		return e.prompts.UniqueHash(prompt.Prompt{Seed: s.Seed}, int(i))
	}
	return e.prompts.LocalHash(s.Nodes[i/t.PerNode], int(i%t.PerNode))
}

// generatedHash returns a hash for a page from output i of its request, the first generated token in it. No page of a
// query has this hash.
func generatedHash(s *radix.Sequence, i int32) uint64 {
	return blockhash.Bytes(binary.LittleEndian.AppendUint64([]byte("gen"), s.Token(int(i))))
}

func (e *pageEvents) Split(t *radix.Tree, upper, lower int32) {
	e.hashes.Split(upper, lower, t.At(upper).Size())
}

func (e *pageEvents) Removed(t *radix.Tree, n, from int32) {
	gone := e.hashes.Cut(n, int(from-t.At(n).From))
	if l := e.latest(); len(l.Removed) > 0 {
		l.Removed = append(l.Removed, gone...)
		return
	}
	e.events = append(e.events, scheduler.KVEvent{Removed: slices.Clone(gone)})
}
