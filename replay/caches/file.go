// Package caches reads and writes files of the prefix caches of a cluster, with which another replay begins
// (docs/sweep.md).
//
// A file is JSON Lines of these kinds, in this order:
//
//   - A header: format (replay-caches), version (1), at_ms of caches that were not written at the end, block_size and
//     trace_block_size in tokens, and the numbers of prefixes and workers that follow.
//   - A prefix: prefix, its number from 0, and hash_ids, which follow those of its parent, an earlier prefix.
//   - A worker: pool (prefill or decode, with two pools), worker, engine, kv_blocks, cached_blocks, and entries, the
//     number of entries that follow. SGLang has decode_passes since the last KV events and admission_attempts since
//     the last aging.
//   - An entry: blocks [from, to) of the prompt that begins with prefix; without prefix, blocks of answers. Entries of
//     vLLM are in the order of eviction, the last block of an entry first; copy numbers blocks with equal content, and
//     blank blocks are empty. Entries of SGLang are nodes of the radix tree, the least recently used first; blocks
//     after shared are of sequence own of the worker.
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

// Format and Version begin a file.
const (
	Format  = "replay-caches"
	Version = 1
)

// File is the caches of a cluster at an instant of a replay.
type File struct {
	Path       string   // where it was read, for messages
	At         sim.Time // of the clock of the replay that left it; 0: its end
	Block      int      // tokens of a KV block
	TraceBlock int      // tokens of a hash id
	Prefixes   []Prefix // a prefix tree of hash ids
	Workers    []Worker
}

// Recorded returns the path of the file that a run directory has, "" if there is none.
func (f *File) Recorded() any {
	if f == nil {
		return ""
	}
	return f.Path
}

// Prefix is hash ids that follow those of its parent.
type Prefix struct {
	Parent int // in File.Prefixes, and before it; -1: none
	IDs    []uint64
}

// Worker is what the cache of a worker holds.
type Worker struct {
	Pool   string // the role of its pool, "" for the only one
	ID     sim.WorkerID
	Engine string
	Blocks int // KV blocks of the engine, cached or not
	// Decodes and Attempts are those of scheduler.Cache.
	Decodes, Attempts int
	Runs              []Run
	Line              int // in the file
}

// Run is blocks of scheduler.CachedBlocks.
type Run struct {
	Prefix      int // the blocks are the first ones of this prefix and its parents; -1: of none
	From, To    int32
	Copy        int32
	Own, Shared int32
	Blank       bool
	Line        int // in the file
}

// Cached returns the number of blocks of w's cache.
func (w *Worker) Cached() int {
	n := 0
	for i := range w.Runs {
		if r := &w.Runs[i]; !r.Blank {
			n += int(r.To - r.From)
		}
	}
	return n
}

// IDs returns the hash ids of a prefix and of all before it.
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

// count returns how many hash ids blocks take that begin a prompt.
func (f *File) count(blocks int32) int {
	return (int(blocks)*f.Block + f.TraceBlock - 1) / f.TraceBlock
}

// shared returns how many of the first blocks of the sequence of r a prompt has.
func (r *Run) shared() int32 {
	switch {
	case r.Prefix < 0:
		return 0
	case r.Own > 0:
		return r.Shared
	}
	return r.To
}

// Prompts are prompts that begin with all prefixes of a file: to be interned with those of a workload.
type Prompts struct {
	ids    [][]uint64
	tokens []int
	at     []int // by prefix: its prompt; -1: none is needed
}

// Prompts returns prompts with the blocks of the file. Those of a prefix that continues begin with it.
func (f *File) Prompts() *Prompts {
	p := &Prompts{at: make([]int, len(f.Prefixes))}
	most := make([]int32, len(f.Prefixes)) // blocks, by prefix
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

// At returns the hash ids and the tokens of prompt i.
func (p *Prompts) At(i int) (ids []uint64, tokens int) { return p.ids[i], p.tokens[i] }

// CacheOf returns the cache of a worker, in a tree where list returns prompt i of p.
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

// Find returns the cache of a worker; nil if the file has none.
func (f *File) Find(pool string, id sim.WorkerID) *Worker {
	for i := range f.Workers {
		if w := &f.Workers[i]; w.Pool == pool && w.ID == id {
			return w
		}
	}
	return nil
}

// ErrorAt returns an error about a line of the file.
func (f *File) ErrorAt(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", f.Path, line, fmt.Sprintf(format, args...))
}

// maxBlock bounds sizes of blocks and numbers of them.
const maxBlock = math.MaxInt32
