package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/blockhash"
	"github.com/replay-llm/replay/sim/prompt"
)

// events writes down what becomes cached and what is evicted, when anybody
// looks.
type events struct {
	on      bool
	tree    *prompt.Tree
	sources map[int64]*source // by request, as long as a block of its own can be found
	out     *scheduler.Pass
}

// source is what names the blocks of a request that no other can name.
type source struct {
	prompt prompt.Prompt
	// Hashes of the blocks of a unique prompt.
	local, sequence []uint64
	named           int // blocks that can be found
	gone            bool
}

func (e *events) init(cfg *Config) {
	*e = events{on: cfg.Capture == scheduler.CaptureEvents, tree: cfg.Tree}
	if e.on {
		e.sources = make(map[int64]*source)
	}
}

func (e *events) begin(p *scheduler.Pass) { e.out = p }

func (e *events) submitted(r *sim.Request) {
	if !e.on {
		return
	}
	s := &source{prompt: r.Prompt}
	if r.Prompt.Unique() {
		s.local, s.sequence = e.tree.Hashes(r.Prompt)
	}
	e.sources[int64(r.ID)] = s
}

func (e *events) finished(id sim.RequestID) {
	if s := e.sources[int64(id)]; s != nil {
		s.gone = true
		e.settle(int64(id), s)
	}
}

// settle forgets a source that names nothing any more.
func (e *events) settle(request int64, s *source) {
	if s.gone && s.named == 0 {
		delete(e.sources, request)
	}
}

// stored tells that block i of r can be found. It goes on where the event before
// it ends, if it can.
func (e *events) stored(r *request, i int) {
	if !e.on {
		return
	}
	if i >= r.shared {
		e.sources[int64(r.id)].named++
	}
	b := scheduler.KVBlock{Seq: e.sequence(r, i), Tokens: e.local(r, i)}
	event := scheduler.KVEvent{Stored: []scheduler.KVBlock{b}}
	if i > 0 {
		event.Parent, event.HasParent = e.sequence(r, i-1), true
		if n := len(e.out.Events); n > 0 {
			if last := &e.out.Events[n-1]; len(last.Stored) > 0 && last.Stored[len(last.Stored)-1].Seq == event.Parent {
				last.Stored = append(last.Stored, b)
				return
			}
		}
	}
	e.out.Events = append(e.out.Events, event)
}

// removed tells that the block of that key is evicted.
func (e *events) removed(key int64) {
	if !e.on {
		return
	}
	var hash uint64
	if key >= 0 {
		per := int64(e.tree.PerNode())
		hash = e.tree.SequenceHash(prompt.NodeID(key/per), int(key%per))
	} else {
		id, i := content(key)
		s := e.sources[id]
		hash = s.hash(id, i)
		s.named--
		e.settle(id, s)
	}
	if n := len(e.out.Events); n > 0 && len(e.out.Events[n-1].Removed) > 0 {
		last := &e.out.Events[n-1]
		last.Removed = append(last.Removed, hash)
		return
	}
	e.out.Events = append(e.out.Events, scheduler.KVEvent{Removed: []uint64{hash}})
}

// sequence is the name of block i of r.
func (e *events) sequence(r *request, i int) uint64 {
	if i < r.shared {
		per := e.tree.PerNode()
		return e.tree.SequenceHash(r.path[i/per], i%per)
	}
	return e.sources[int64(r.id)].hash(int64(r.id), i)
}

// hash names a block that only one request can name: one of a unique prompt by
// its content, any other by a number of its own, which is the hash of 16 bytes
// and never that of a prompt's block.
func (s *source) hash(request int64, i int) uint64 {
	if i < len(s.sequence) {
		return s.sequence[i]
	}
	return ownHash(request, i)
}

func ownHash(request int64, i int) uint64 {
	return blockhash.Chain(^uint64(request), uint64(i)) | 1<<63
}

// local is the hash of the tokens of block i of r; one with generated tokens has
// a number of its own.
func (e *events) local(r *request, i int) uint64 {
	s := e.sources[int64(r.id)]
	switch {
	case i >= int(s.prompt.Blocks):
		return ownHash(int64(r.id), i) | 1<<62
	case s.prompt.Unique():
		return s.local[i]
	}
	per := e.tree.PerNode()
	return e.tree.LocalHash(s.prompt.Nodes[i/per], i%per)
}
