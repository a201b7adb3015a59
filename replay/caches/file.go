// Package caches reads and writes files of the prefix caches of a cluster, with which another replay can begin
// (docs/sweep.md).
//
// A file is in the JSON Lines format, with these kinds of lines, in this order:
//
//   - A header: format (replay-caches), version (1), block_size and trace_block_size in tokens, and the numbers of
//     prefixes and workers that follow. The key at_ms is the instant of the caches; it is absent if they were written
//     at the end of the replay.
//   - A prefix: prefix is its number, counted from 0. The hash_ids follow the hash ids of parent, which is the number
//     of an earlier prefix.
//   - A worker: pool (prefill or decode, if there are two pools), worker, engine, kv_blocks, cached_blocks and
//     entries. The key entries is the number of entries that follow. For SGLang, the line also has decode_passes
//     since the last KV events and admission_attempts since the last aging.
//   - An entry: blocks [from, to) of the prompt that begins with prefix, or blocks of answers if there is no prefix.
//     Entries of vLLM are in the order of eviction, and the last block of an entry is evicted first. For vLLM, copy
//     numbers blocks with equal content, and blank blocks are empty. Entries of SGLang are nodes of the radix tree,
//     with the least recently used node first. For SGLang, blocks after shared belong to sequence own of the worker.
//
// Read file.go, then write.go and read.go.
package caches

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Format and Version are the first values in the header of a file.
const (
	Format  = "replay-caches"
	Version = 1
)

// File holds the caches of a cluster at one instant of a replay.
type File struct {
	Path       string   // the path from which it was read, for messages
	At         sim.Time // instant on the clock of the replay that wrote the file; 0: the end of that replay
	Block      int      // tokens in a KV block
	TraceBlock int      // tokens in the block of a hash id
	Prefixes   []Prefix // prefixes that form a tree
	Workers    []Worker
}

// Recorded returns the path of the file for the record of a run directory, or "" if f is nil.
func (f *File) Recorded() any {
	if f == nil {
		return ""
	}
	return f.Path
}

// Prefix is a list of hash ids that follow the hash ids of its parent.
type Prefix struct {
	Parent int // index of an earlier prefix in File.Prefixes; -1: no parent
	IDs    []uint64
}

// Worker is the content of the cache of one worker.
type Worker struct {
	Pool   string // role of the worker's pool; "": the cluster has one pool
	ID     sim.WorkerID
	Engine string
	Blocks int // number of KV blocks of the engine, cached or not
	// Decodes and Attempts are the fields of scheduler.Cache with these names.
	Decodes, Attempts int
	Runs              []Run
	Line              int // line number in the file
}

// Run is one scheduler.CachedBlocks in the form that the file has.
type Run struct {
	Prefix      int // the blocks are the first blocks of this prefix, its parents included; -1: they have no prefix
	From, To    int32
	Copy        int32
	Own, Shared int32
	Blank       bool
	Line        int // line number in the file
}

// Cached returns the number of blocks in the cache of w, without blank blocks.
func (w *Worker) Cached() int {
	n := 0
	for i := range w.Runs {
		if r := &w.Runs[i]; !r.Blank {
			n += int(r.To - r.From)
		}
	}
	return n
}

// IDs returns the hash ids of a prefix after those of its parents.
func (f *File) IDs(prefix int) []uint64 {
	n := 0
	for i := prefix; i >= 0; i = f.Prefixes[i].Parent {
		n += len(f.Prefixes[i].IDs)
	}
	ids := make([]uint64, n)
	for i := prefix; i >= 0; i = f.Prefixes[i].Parent {
		n -= copy(ids[n-len(f.Prefixes[i].IDs):], f.Prefixes[i].IDs)
	}
	return ids
}

// count returns the number of hash ids that the first blocks of a prompt take.
func (f *File) count(blocks int32) int {
	return (int(blocks)*f.Block + f.TraceBlock - 1) / f.TraceBlock
}

// shared returns how many of the first blocks of the sequence of r come from a prompt.
func (r *Run) shared() int32 {
	switch {
	case r.Prefix < 0:
		return 0
	case r.Own > 0:
		return r.Shared
	}
	return r.To
}

// Prompts holds prompts that together begin with every prefix of a file. Prompts are interned with the prompts of a
// workload.
type Prompts struct {
	ids    [][]uint64
	tokens []int
	at     []int // index of the prompt, by prefix; -1: the prefix needs no prompt
}

// Prompts returns prompts that hold the blocks of the file. A prefix that another prefix continues shares the prompt
// of that prefix.
func (f *File) Prompts() *Prompts {
	p := &Prompts{at: make([]int, len(f.Prefixes))}
	most := make([]int32, len(f.Prefixes)) // number of blocks, by prefix
	for i := range f.Workers {
		for k := range f.Workers[i].Runs {
			if r := &f.Workers[i].Runs[k]; r.Prefix >= 0 {
				most[r.Prefix] = max(most[r.Prefix], r.shared())
			}
		}
	}
	for i := range p.at {
		p.at[i] = -1
	}
	for i := len(p.at) - 1; i >= 0; i-- {
		if p.at[i] < 0 && most[i] > 0 {
			p.at[i] = len(p.ids)
			p.ids, p.tokens = append(p.ids, f.IDs(i)), append(p.tokens, 0)
		}
		if at := p.at[i]; at >= 0 {
			p.tokens[at] = max(p.tokens[at], int(most[i])*f.Block)
			if up := f.Prefixes[i].Parent; up >= 0 {
				p.at[up] = at
			}
		}
	}
	return p
}

// Len returns the number of prompts.
func (p *Prompts) Len() int { return len(p.ids) }

// At returns the hash ids and the number of tokens of prompt i.
func (p *Prompts) At(i int) (ids []uint64, tokens int) { return p.ids[i], p.tokens[i] }

// CacheOf returns the cache of a worker with the nodes of tree t. The function list returns the nodes of
// prompt i of p in t.
func (f *File) CacheOf(w *Worker, t *prompt.Tree, p *Prompts, list func(i int) prompt.Prompt) scheduler.Cache {
	c := scheduler.Cache{Decodes: w.Decodes, Attempts: w.Attempts, Blocks: make([]scheduler.CachedBlocks, len(w.Runs))}
	for i := range w.Runs {
		r := &w.Runs[i]
		b := scheduler.CachedBlocks{Node: prompt.None, From: r.From, To: r.To, Copy: r.Copy, Own: r.Own, Shared: r.Shared, Blank: r.Blank}
		if n := r.shared(); n > 0 {
			path := list(p.at[r.Prefix]).Nodes
			b.Node = path[t.Index(path, int(n)-1)]
		}
		c.Blocks[i] = b
	}
	return c
}

// Find returns the cache of a worker, nil if the file has none.
func (f *File) Find(pool string, id sim.WorkerID) *Worker {
	for i := range f.Workers {
		if w := &f.Workers[i]; w.Pool == pool && w.ID == id {
			return w
		}
	}
	return nil
}

// ErrorAt returns an error that names a line of the file.
func (f *File) ErrorAt(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", f.Path, line, fmt.Sprintf(format, args...))
}

// maxBlock is the upper bound of block sizes and of numbers of blocks.
const maxBlock = math.MaxInt32
