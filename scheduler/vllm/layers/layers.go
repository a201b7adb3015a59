// Package layers manages the KV blocks of several groups of layers as segments. The pool records the blocks that
// requests find and hold in each group, and the blocks that windows have passed. The caller counts free blocks and
// blocks without a name.
package layers

import (
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm/segment"
	"github.com/replay-llm/replay/scheduler/vllm/windows"
	"github.com/replay-llm/replay/sim/prompt"
)

// Pool manages the KV blocks of all groups.
type Pool struct {
	windows.Layout
	tree  *prompt.Tree
	lists segment.Lists
	// blank is the number of free blocks that are allocated before all blocks in the queue. Blank blocks were never
	// used or, without oneQueue, were released without a name.
	blank    int
	oneQueue bool
	latest   lookup
	counts   []int32      // by segment: number of holders that Check counted
	pieces   []segment.ID // result of piecesOf
}

// Sequence is the data of a request in all groups.
type Sequence struct {
	Number uint64          // unique number of the request
	Path   []prompt.NodeID // names of the first full blocks
	Shared int             // number of blocks that Path names
	entry  segment.Entry   // entry of the blocks that only the request can find
	held   [][]segment.Holding
}

// New returns a pool of blocks without names. If reports is set, the pool reports changes in the watched group.
func New(w windows.Layout, tree *prompt.Tree, blocks int, oneQueue, reports bool) *Pool {
	watched := -1
	if reports {
		watched = w.Windows.Watched()
	}
	return &Pool{Layout: w, tree: tree, lists: segment.NewLists(w.All, watched), blank: blocks, oneQueue: oneQueue}
}

// entryAt returns the entry that names a block of q, and the range of blocks that it names.
func (p *Pool) entryAt(q *Sequence, block int) (e segment.Entry, start, end int) {
	if block >= q.Shared {
		return q.entry, q.Shared, math.MaxInt32
	}
	n := q.Path[p.tree.Index(q.Path, block)]
	return p.lists.Find(n), int(p.tree.Start(n)), min(int(p.tree.End(n)), q.Shared)
}

// reachUp returns the first block of q from `from` on that is not cached in group g, or end if all are.
func (p *Pool) reachUp(q *Sequence, g, from, end int) int {
	for from < end {
		e, _, stop := p.entryAt(q, from)
		stop = min(stop, end)
		if from = int(p.lists.ReachUp(e, g, int32(from), int32(stop))); from < stop {
			return from
		}
	}
	return from
}

// reachDown returns the first block, at least from, such that group g has all blocks of q from there up to end
// cached. If the result is not from, before is the end of the last blocks in front of it that may be cached, too.
func (p *Pool) reachDown(q *Sequence, g, from, end int) (at, before int) {
	for at = end; at > from; {
		e, start, _ := p.entryAt(q, at-1)
		stop := max(start, from)
		if at = int(p.lists.ReachDown(e, g, int32(stop), int32(at))); at > stop {
			return at, int(p.lists.LastBelow(e, g, int32(start), int32(at-1)))
		}
	}
	return at, at
}

// lookup is the result of Cached. Planning looks up the first waiting request again for every pass.
type lookup struct {
	number uint64 // number of the sequence
	most   int
	entry  segment.Entry
	nodes  int   // number of nodes at the start of the path that have entries; the next node has none
	change int64 // number of changes before the lookup
	cached int
}

// Cached returns how many of the first blocks of q are cached, at most `most`. Groups without windows must have all
// these blocks, and groups with windows must have the blocks that the next token attends to.
func (p *Pool) Cached(q *Sequence, most int) int {
	if p.Windows.Full == 0 {
		return p.findCached(q, most)
	}
	if !p.isCurrent(q, most) {
		l := lookup{number: q.Number, most: most, entry: q.entry, change: p.lists.Changes(), cached: p.findCached(q, most)}
		for l.nodes < len(q.Path) && p.lists.Find(q.Path[l.nodes]) != segment.NoEntry {
			l.nodes++
		}
		p.latest = l
	}
	return p.latest.cached
}

// isCurrent reports whether the latest lookup was for q and its nodes have not changed since. Groups without windows
// have no blocks cached after the first node without an entry.
func (p *Pool) isCurrent(q *Sequence, most int) bool {
	l := &p.latest
	if l.number != q.Number || l.most != most || l.entry != q.entry {
		return false
	}
	if l.entry != segment.NoEntry && p.lists.Changed(l.entry) > l.change {
		return false
	}
	for k, n := range q.Path {
		e := p.lists.Find(n)
		if k == l.nodes || e == segment.NoEntry {
			return k == l.nodes && e == segment.NoEntry
		}
		if p.lists.Changed(e) > l.change {
			return false
		}
	}
	return true
}

// findCached computes the result of Cached.
func (p *Pool) findCached(q *Sequence, most int) int {
	n := most
	for g := range p.All {
		if !p.IsWindowed(g) {
			n = p.reachUp(q, g, 0, n)
		}
	}
	if p.Windows.Chunked {
		from := p.FirstHeld(n)
		for g := p.From; g < p.To; g++ {
			n = p.reachUp(q, g, from, n)
		}
		return n
	}
	for n > 0 {
		before := p.lacksWindow(q, n)
		if before < 0 {
			return n
		}
		n = before
	}
	return 0
}

// lacksWindow returns -1 if groups with windows have cached all blocks that the token after the first n blocks of q
// attends to. If blocks are missing, lacksWindow returns the highest number of blocks, below n, for which they may
// have.
func (p *Pool) lacksWindow(q *Sequence, n int) int {
	from := max(0, n-(p.Windows.Tokens-1+1<<p.Shift-1)>>p.Shift)
	for g := p.From; g < p.To; g++ {
		if at, before := p.reachDown(q, g, from, n); at > from {
			return before
		}
	}
	return -1
}

// visitHits calls visit with the segments of group g that contain the blocks of q from `from` up to hits. All blocks
// in the range must be cached.
func (p *Pool) visitHits(q *Sequence, g, from, hits int, visit func(i segment.ID, from, end int32)) {
	for from < hits {
		e, _, stop := p.entryAt(q, from)
		i, end := p.lists.Get(e, g, int32(from))
		end = min(end, int32(min(stop, hits)))
		visit(i, int32(from), end)
		from = int(end)
	}
}

// CountIdle returns how many of the first `hits` blocks of q no request holds. The first `hits` blocks must be
// cached. Groups with windows skip the first `passed` blocks.
func (p *Pool) CountIdle(q *Sequence, passed, hits int) (idle int) {
	for g := range p.All {
		p.visitHits(q, g, p.Skip(g, passed), hits, func(i segment.ID, from, end int32) {
			if p.lists.At(i).Holders == 0 {
				idle += int(end - from)
			}
		})
	}
	return idle
}

// Hold makes q a holder of the same blocks as in CountIdle. q must not hold any blocks. Hold returns how many of the
// blocks were idle.
func (p *Pool) Hold(q *Sequence, passed, hits int) (idle int) {
	if q.held == nil {
		q.held = make([][]segment.Holding, p.All)
	}
	for g := range p.All {
		p.visitHits(q, g, p.Skip(g, passed), hits, func(i segment.ID, from, end int32) {
			held, n := p.lists.Hold(i, q.held[g], from, end)
			q.held[g] = held
			idle += n
		})
	}
	return idle
}

// Take allocates n blocks. Take returns how many of the blocks were cached, and reports changes to out.
func (p *Pool) Take(n int, out *scheduler.Pass) (cached int) {
	blank := min(n, p.blank)
	p.blank -= blank
	for n -= blank; n > 0; {
		x := p.lists.Evict(int32(n))
		n -= int(x.Blocks)
		if !x.Unnamed {
			cached += int(x.Blocks)
		}
		if x.Node != prompt.None {
			p.reportEnd(x.Node, x.End, out)
		}
	}
	return cached
}

// reportEnd reports up to which block a node is cached.
func (p *Pool) reportEnd(n prompt.NodeID, end int32, out *scheduler.Pass) {
	out.KV = append(out.KV, scheduler.KVChange{Node: n, Blocks: max(0, end-p.tree.Start(n))})
}

// Name names the blocks of q from `from` up to end, so that lookups can find them. q must hold them. Groups with
// windows skip the first `passed` blocks.
func (p *Pool) Name(q *Sequence, passed, from, end int, out *scheduler.Pass) {
	for at := max(from, p.leastSkipped(passed)); at < end; {
		e, _, stop := p.entryAt(q, at)
		if stop = min(stop, end); e == segment.NoEntry {
			e = p.addEntry(q, at)
		}
		for g := range p.All {
			lo := max(at, p.Skip(g, passed))
			if lo >= stop {
				continue
			}
			held, more := p.lists.Name(e, g, q.held[g], int32(lo), int32(stop))
			if q.held[g] = held; more {
				p.reportEnd(q.Path[p.tree.Index(q.Path, at)], int32(stop), out)
			}
		}
		at = stop
	}
}

// leastSkipped returns how many blocks all groups skip if groups with windows skip `passed` blocks.
func (p *Pool) leastSkipped(passed int) int {
	if p.Windows.Full > 0 {
		return 0
	}
	return passed
}

// addEntry returns a new entry for the names of a block of q and its neighbors.
func (p *Pool) addEntry(q *Sequence, block int) segment.Entry {
	if block < q.Shared {
		return p.lists.Enter(q.Path[p.tree.Index(q.Path, block)])
	}
	q.entry = p.lists.EnterRequest()
	return q.entry
}

// Drop removes q as a holder of its blocks from `from` up to n in groups with windows, last to first. The blocks of q
// before named have names. Drop returns how many blocks became free, and how many free blocks are cached.
func (p *Pool) Drop(q *Sequence, from, n, named int) (free, cached int) {
	for g := p.From; g < p.To; g++ {
		free += p.freeUnnamed(n - max(named, from))
		left, idle := p.lists.DropFirst(q.held[g], int32(n))
		q.held[g] = left
		cached += idle
	}
	return free + cached, cached
}

// Release removes q as a holder of all its blocks, group by group, last to first. Release returns the same numbers as
// Drop.
func (p *Pool) Release(q *Sequence, passed, blocks, named int) (free, cached int) {
	for g := range q.held {
		free += p.freeUnnamed(blocks - max(named, p.Skip(g, passed)))
		cached += p.lists.Release(q.held[g])
		q.held[g] = q.held[g][:0]
	}
	return free + cached, cached
}

// freeUnnamed releases n blocks without a name, if n is positive. freeUnnamed returns how many blocks it released.
func (p *Pool) freeUnnamed(n int) int {
	switch {
	case n <= 0:
		return 0
	case p.oneQueue:
		p.lists.PushUnnamed(int32(n))
	default:
		p.blank += n
	}
	return n
}

// Forget removes the entry of the blocks that only q can find. q must have left.
func (p *Pool) Forget(q *Sequence) {
	if q.entry != segment.NoEntry {
		p.lists.Leave(q.entry)
		q.entry = segment.NoEntry
	}
}

// VisitNodes calls use with every node that has cached blocks.
func (p *Pool) VisitNodes(use func(prompt.NodeID)) { p.lists.VisitNodes(use) }

// Check panics if the counters do not agree. The caller must call BeginCheck, and then CheckHeld for each request
// that holds blocks. Check returns how many blocks are held and have a name, how many are free, and how many free
// blocks are cached.
func (p *Pool) Check() (held, free, cached int) {
	for i, n := range p.counts {
		if s := p.lists.At(segment.ID(i)); n > 0 {
			if held += s.Size(); s.Holders != n || s.Size() <= 0 {
				panic(fmt.Sprintf("segment %d of %d blocks has %d holders, %d counted", i, s.Size(), n, s.Holders))
			}
		}
	}
	if fault := p.lists.Fault(func(g int) bool { return !p.IsWindowed(g) }, p.tree.Start); fault != "" {
		panic(fault)
	}
	free, cached = p.lists.CountQueued()
	return held, free + p.blank, cached
}

// BeginCheck resets the counters for a check.
func (p *Pool) BeginCheck() {
	p.counts = slices.Grow(p.counts[:0], len(p.lists.All))[:len(p.lists.All)]
	clear(p.counts)
}

// piecesOf returns the segments of a holding. The segments are valid until the next call.
func (p *Pool) piecesOf(h segment.Holding) []segment.ID {
	p.pieces = p.lists.AppendPieces(p.pieces[:0], h)
	return p.pieces
}

// CheckHeld counts the blocks of q, and panics if its holdings do not match the number of named blocks. CheckHeld
// returns the number of blocks without a name.
func (p *Pool) CheckHeld(q *Sequence, passed, named, blocks int) (unnamed int) {
	for g, all := range q.held {
		first, n := p.Skip(g, passed), 0
		unnamed += blocks - max(named, first)
		for _, h := range all {
			n += int(h.Blocks)
			for _, i := range p.piecesOf(h) {
				p.counts[i]++
			}
		}
		if want := max(0, named-first); n != want {
			panic(fmt.Sprintf("group %d: holdings of %d blocks, must be the %d that can be found", g, n, want))
		}
	}
	return unnamed
}
