package caches

import (
	"bufio"
	"io"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/prompt"
)

// Collector builds a File from caches.
type Collector struct {
	file  *File
	tree  *prompt.Tree
	at    map[span]int // index in ids
	ids   [][]uint64
	wants []want
}

// span is the first blocks of the path to a node of the tree.
type span struct {
	node   prompt.NodeID
	blocks int32
}

// want is a run that still needs the number of its prefix. The hash ids of the run are at index ids of Collector.ids.
type want struct{ worker, run, ids int }

// NewCollector returns a collector for the caches of engines with prompts in t. The file f has all its fields except
// prefixes and workers.
func NewCollector(f *File, t *prompt.Tree) *Collector {
	return &Collector{file: f, tree: t, at: make(map[span]int)}
}

// Add adds the cache of a worker. The fields that are not in the cache come from w.
func (c *Collector) Add(w Worker, of *scheduler.Cache) {
	w.Decodes, w.Attempts = of.Decodes, of.Attempts
	for i := range of.Blocks {
		b := &of.Blocks[i]
		r := Run{Prefix: -1, From: b.From, To: b.To, Copy: b.Copy, Own: b.Own, Shared: b.Shared, Blank: b.Blank}
		if b.Node != prompt.None {
			r.Prefix = 0
			s := span{b.Node, r.shared()}
			at, ok := c.at[s]
			if !ok {
				at = len(c.ids)
				c.at[s], c.ids = at, append(c.ids, c.tree.AppendIDs(nil, s.node, s.blocks))
			}
			c.wants = append(c.wants, want{len(c.file.Workers), i, at})
		}
		w.Runs = append(w.Runs, r)
	}
	c.file.Workers = append(c.file.Workers, w)
}

// File returns the file. The prefixes of the file are numbered in the order in which the runs refer to them.
func (c *Collector) File() *File {
	t := prompt.NewTree(1, 1, prompt.Options{Joined: true})
	list := t.AddAll(len(c.ids), func(i int) ([]uint64, int) { return c.ids[i], len(c.ids[i]) })
	for _, x := range c.wants {
		nodes := list.At(x.ids).Nodes
		c.file.Workers[x.worker].Runs[x.run].Prefix = int(nodes[len(nodes)-1])
	}
	for n := range t.Len() {
		id := prompt.NodeID(n)
		ids := t.AppendIDs(nil, id, t.End(id))
		c.file.Prefixes = append(c.file.Prefixes, Prefix{Parent: int(t.Parent(id)), IDs: ids[t.Start(id):]})
	}
	return c.file
}

// Each type is a kind of line in a file: the head, the prefixes, then each worker with its entries.
type (
	head struct {
		Format     string  `json:"format"`
		Version    int     `json:"version"`
		At         float64 `json:"at_ms,omitempty"`
		Block      int     `json:"block_size"`
		TraceBlock int     `json:"trace_block_size"`
		Prefixes   int     `json:"prefixes"`
		Workers    int     `json:"workers"`
	}
	prefixLine struct {
		Prefix int      `json:"prefix"`
		Parent *int     `json:"parent,omitempty"`
		IDs    []uint64 `json:"hash_ids"`
	}
	workerLine struct {
		Pool     string `json:"pool,omitempty"`
		Worker   int64  `json:"worker"`
		Engine   string `json:"engine"`
		Blocks   int    `json:"kv_blocks"`
		Cached   int    `json:"cached_blocks"`
		Decodes  int    `json:"decode_passes,omitempty"`
		Attempts int    `json:"admission_attempts,omitempty"`
		Entries  int    `json:"entries"`
	}
	entryLine struct {
		Prefix *int     `json:"prefix,omitempty"`
		Blocks [2]int32 `json:"blocks"`
		Copy   int32    `json:"copy,omitempty"`
		Own    int32    `json:"own,omitempty"`
		Shared int32    `json:"shared,omitempty"`
		Blank  bool     `json:"blank,omitempty"`
	}
)

// Write writes the file to w.
func (f *File) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	e := json.NewEncoder(out)
	if err := e.Encode(head{Format, Version, float64(f.At), f.Block, f.TraceBlock, len(f.Prefixes), len(f.Workers)}); err != nil {
		return err
	}
	for i := range f.Prefixes {
		p := &f.Prefixes[i]
		line := prefixLine{Prefix: i, IDs: p.IDs}
		if p.Parent >= 0 {
			line.Parent = &p.Parent
		}
		if err := e.Encode(line); err != nil {
			return err
		}
	}
	for i := range f.Workers {
		if err := f.Workers[i].write(e); err != nil {
			return err
		}
	}
	return out.Flush()
}

// write writes a worker with its entries.
func (w *Worker) write(e *json.Encoder) error {
	if err := e.Encode(workerLine{w.Pool, int64(w.ID), w.Engine, w.Blocks, w.Cached(), w.Decodes, w.Attempts, len(w.Runs)}); err != nil {
		return err
	}
	for i := range w.Runs {
		r := &w.Runs[i]
		line := entryLine{Blocks: [2]int32{r.From, r.To}, Copy: r.Copy, Own: r.Own, Shared: r.Shared, Blank: r.Blank}
		if r.Prefix >= 0 {
			line.Prefix = &r.Prefix
		}
		if err := e.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
