package harness

import (
	"errors"
	"fmt"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/caches"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// SaveCaches sets when the caches of a replay are saved.
type SaveCaches struct {
	At sim.Time // 0: at the end
}

// WarmStart is a summary of the initial caches of a replay.
type WarmStart struct {
	Blocks  int // KV blocks that can be found, or that were blocks of answers
	Workers int // number of workers with initial blocks
	Empty   int // number of workers without initial blocks
	Unused  int // number of workers of the file that do not exist in the replay
	Evicted int // number of blocks of the file for which there was no room
}

// warming is the initial caches of a replay, with interned prompts.
type warming struct {
	file    *caches.File
	prompts *caches.Prompts
	all     *prompt.List // the workload's prompts, then the prompts of the caches
	start   WarmStart
}

// checkCaches rejects caches that do not match the workload's prompts, or that cannot be written.
func (c *Config) checkCaches(traceBlock, block int) error {
	switch w := c.Workload; {
	case c.Warm == nil && c.Save == nil:
		return nil
	case w.Synthetic:
		return errors.New("prompts of a synthetic workload share nothing with those of another: use a trace with hash ids for --warm-caches and --save-caches")
	case w.Renumbered:
		return fmt.Errorf("%s: its hash ids are numbered as they come in the file, so that those of another file are other blocks: must be a trace in Mooncake's format for --warm-caches and --save-caches (replay traces convert)", w.Name)
	case c.KVEvents:
		return errors.New("events of KV caches begin with empty caches: remove --kv-events-file with --warm-caches and --save-caches")
	}
	if err := c.CheckCacheFiles(); err != nil || c.Warm == nil {
		return err
	}
	switch f := c.Warm; {
	case f.Block != block:
		return fmt.Errorf("%s:1: block_size is %d, and %d of the engines, must be the same", f.Path, f.Block, block)
	case f.TraceBlock != traceBlock:
		return fmt.Errorf("%s:1: trace_block_size is %d, and %d of the trace, must be the same", f.Path, f.TraceBlock, traceBlock)
	}
	for i := range c.Warm.Workers {
		w := &c.Warm.Workers[i]
		if !c.hasPool(w.Pool) {
			return c.Warm.ErrorAt(w.Line, "pool is %q, and the replay has %s", w.Pool, c.describePools())
		}
	}
	return nil
}

// poolName returns the name of a pool in a file.
func poolName(role scheduler.Role) string {
	if role == scheduler.Aggregated {
		return ""
	}
	return role.String()
}

func (c *Config) hasPool(name string) bool {
	for i := range c.Pools {
		if poolName(c.Pools[i].Role) == name {
			return true
		}
	}
	return false
}

func (c *Config) describePools() string {
	if c.Disaggregated() {
		return "a prefill and a decode pool"
	}
	return "one pool, without a name"
}

// intern adds the prompts of the workload and of the initial caches to the tree.
func (r *Run) intern(t *prompt.Tree) *prompt.List {
	f := r.Warm
	switch {
	case f == nil && r.Once && r.Save == nil && !r.Use.Events:
		return loadgen.InternLast(r.Workload, t)
	case f == nil:
		return loadgen.Intern(r.Workload, t)
	}
	p := f.Prompts()
	all := loadgen.InternMore(r.Workload, t, p.Len(), p.At)
	r.warming = &warming{file: f, prompts: p, all: all}
	r.warming.start.Unused = len(f.Workers)
	return all.First(len(r.Workload.Turns))
}

// WarmWorker fills the cache of a new worker with its initial blocks, if any. WarmWorker replaces *p by a pass that
// announces the cached blocks.
func (r *Run) WarmWorker(pool int, id sim.WorkerID, core scheduler.Core, p *scheduler.Pass) error {
	x := r.warming
	if x == nil {
		return nil
	}
	s := r.Stages[pool]
	w := x.file.Find(poolName(s.Role), id)
	if w == nil {
		x.start.Empty++
		return nil
	}
	x.start.Unused--
	name := s.EngineOf(id).Engine.String()
	if w.Engine != name {
		return x.file.ErrorAt(w.Line, "engine is %s, and the worker's is %s, must be the same", w.Engine, name)
	}
	if len(w.Runs) == 0 && !s.KeepsPrefixes() {
		x.start.Empty++
		return nil
	}
	if !core.Able().Has(scheduler.Warms) {
		return x.file.ErrorAt(w.Line, "the worker's engine cannot begin with a cache")
	}
	first := len(r.Workload.Turns)
	cache := x.file.CacheOf(w, r.Use.Tree, x.prompts, func(i int) prompt.Prompt { return x.all.At(first + i) })
	if err := core.Warm(&cache, p); err != nil {
		var wrong *scheduler.CacheError
		if errors.As(err, &wrong) {
			return x.file.ErrorAt(w.Runs[wrong.Index].Line, "%s", wrong.Reason)
		}
		return x.file.ErrorAt(w.Line, "%v", err)
	}
	n := countCached(core)
	x.start.Blocks += n
	x.start.Evicted += w.Cached() - n
	if n > 0 {
		x.start.Workers++
	} else {
		x.start.Empty++
	}
	return nil
}

func countCached(core scheduler.Core) (n int) {
	c := core.Cache()
	for i := range c.Blocks {
		if b := &c.Blocks[i]; !b.Blank {
			n += int(b.To - b.From)
		}
	}
	return n
}

// WarmStart returns a summary of the initial caches, nil if they were empty.
func (r *Run) WarmStart() *WarmStart {
	if r.warming == nil {
		return nil
	}
	return &r.warming.start
}

// NewSaver returns a Saver without caches.
func (r *Run) NewSaver() *Saver {
	traceBlock := r.Workload.TraceBlock
	f := &caches.File{Block: r.Use.Tree.BlockTokens(), TraceBlock: traceBlock}
	return &Saver{run: r, all: caches.NewCollector(f, r.Use.Tree)}
}

// Saver collects the caches of workers.
type Saver struct {
	run *Run
	all *caches.Collector
}

// Add adds the cache of a worker of a pool.
func (s *Saver) Add(pool int, id sim.WorkerID, core scheduler.Core) {
	stage := s.run.Stages[pool]
	if core == nil || !core.Able().Has(scheduler.Warms) || !stage.KeepsPrefixes() {
		return
	}
	a, cache := stage.EngineOf(id), core.Cache()
	s.all.Add(caches.Worker{Pool: poolName(stage.Role), ID: id, Engine: a.Engine.String(), Blocks: a.Blocks}, &cache)
}

// File returns the file with the caches that were added.
func (s *Saver) File() *caches.File { return s.all.File() }
