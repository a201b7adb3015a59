package router

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Index is the block index of a KV router, built from the events of engines. Index is a tree of blocks, each with the
// members that cache it.
//
// A query finds a block from the root, by the tokens of the blocks before it. An event finds a block by its name on
// the member. After removals, the two can disagree. The index follows the reference in these cases, even where its
// behavior is odd.
type Index struct {
	root    *block
	number  map[Member]int32
	members []Member
	lookup  []map[uint64]*block // by member number, then by sequence hash

	active memberSet // scratch of Match
}

// Member is a data-parallel rank of a worker, with a separate cache.
type Member struct {
	Worker sim.WorkerID
	Rank   int32
}

func (m Member) String() string { return fmt.Sprintf("worker %d rank %d", m.Worker, m.Rank) }

// block is a node of the tree.
type block struct {
	children children
	seq      uint64    // sequence hash under which it was first stored
	members  memberSet // empty at the root
}

// children is the blocks after a block, by local hash. Most blocks have one child, which needs no map.
type children struct {
	first *block
	local uint64 // local hash of first
	more  map[uint64]*block
}

func (c *children) isEmpty() bool { return c.first == nil && len(c.more) == 0 }

func (c *children) get(local uint64) *block {
	if c.first != nil && c.local == local {
		return c.first
	}
	return c.more[local]
}

// put adds a new child.
func (c *children) put(local uint64, b *block) {
	switch {
	case c.first == nil:
		c.first, c.local = b, local
	case c.more == nil:
		c.more = map[uint64]*block{local: b}
	default:
		c.more[local] = b
	}
}

// keepIf removes the children for which f returns false.
func (c *children) keepIf(f func(*block) bool) {
	if c.first != nil && !f(c.first) {
		c.first = nil
	}
	for local, b := range c.more {
		if !f(b) {
			delete(c.more, local)
		}
	}
}

// forEach calls f for all children, in any order.
func (c *children) forEach(f func(*block)) {
	if c.first != nil {
		f(c.first)
	}
	for _, b := range c.more {
		f(b)
	}
}

// Match is the number of leading blocks of a query that a member caches.
type Match struct {
	Member Member
	Blocks int32
}

// The constants are the reasons of an IndexError.
const (
	NoParent    = "Failed to find parent block"
	NoBlock     = "Failed to find block"
	BadSequence = "Invalid block sequence"
)

// IndexError reports an event that contradicts the index.
type IndexError struct {
	Member Member
	Block  uint64 // sequence hash
	Reason string // NoParent, NoBlock or BadSequence
}

func (e *IndexError) Error() string {
	return fmt.Sprintf("%s: %v, block %d", e.Reason, e.Member, e.Block)
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{root: &block{}, number: make(map[Member]int32)}
}

// Apply applies an event of a worker.
func (x *Index) Apply(w sim.WorkerID, e scheduler.KVEvent) error {
	m := Member{Worker: w, Rank: e.Rank}
	if len(e.Stored) > 0 {
		var parent *uint64
		if e.HasParent {
			parent = &e.Parent
		}
		if err := x.Store(m, parent, e.Stored); err != nil {
			return err
		}
	}
	return x.Remove(m, e.Removed)
}

// Store adds consecutive blocks after parent, or at the root if parent is nil. After an error, the blocks before the
// wrong block are stored.
func (x *Index) Store(m Member, parent *uint64, blocks []scheduler.KVBlock) error {
	n := x.numberOf(m)
	at := x.root
	if parent != nil {
		if at = x.lookup[n][*parent]; at == nil {
			return &IndexError{Member: m, Block: *parent, Reason: NoParent}
		}
	}
	for i, b := range blocks {
		if i > 0 {
			at.members.add(n)
		}
		child := at.children.get(b.Tokens)
		if child == nil {
			// A block that the member knows by this name is added with all its descendants.
			if child = x.lookup[n][b.Seq]; child == nil {
				child = &block{seq: b.Seq}
			}
			at.children.put(b.Tokens, child)
		}
		if child == at {
			return &IndexError{Member: m, Block: b.Seq, Reason: BadSequence}
		}
		x.lookup[n][b.Seq] = child
		at = child
	}
	if len(blocks) > 0 {
		at.members.add(n)
	}
	return nil
}

// Remove removes the named blocks from a member. Remove skips unknown blocks and returns an error for the first of
// them.
func (x *Index) Remove(m Member, blocks []uint64) error {
	n := x.numberOf(m)
	var first error
	for _, seq := range blocks {
		b := x.lookup[n][seq]
		if b == nil {
			if first == nil {
				first = &IndexError{Member: m, Block: seq, Reason: NoBlock}
			}
			continue
		}
		b.dropMember(n)
		delete(x.lookup[n], seq)
	}
	return first
}

// Clear removes all blocks from all ranks of a worker.
func (x *Index) Clear(w sim.WorkerID) {
	for n, m := range x.members {
		if m.Worker == w {
			x.clearNumber(int32(n))
		}
	}
}

// ClearMember removes all blocks from one rank of a worker.
func (x *Index) ClearMember(m Member) {
	if n, ok := x.number[m]; ok {
		x.clearNumber(n)
	}
}

func (x *Index) clearNumber(n int32) {
	for _, b := range x.lookup[n] { // any order has the same result
		b.dropMember(n)
	}
	clear(x.lookup[n])
}

// dropMember removes a member from a block. A block without members drops its children, but stays in the tree.
func (b *block) dropMember(n int32) {
	b.members.remove(n)
	if b.members.count == 0 {
		b.children = children{}
	}
}

func (x *Index) numberOf(m Member) int32 {
	n, ok := x.number[m]
	if !ok {
		n = int32(len(x.members))
		x.number[m] = n
		x.members = append(x.members, m)
		x.lookup = append(x.lookup, make(map[uint64]*block))
	}
	return n
}

// Match appends, for each member with cached blocks, the number of leading blocks of the query that it caches. A
// query is a list of local hashes, and the matches are ordered by worker and rank. With earlyExit, Match stops when a
// single member is left.
//
// A member that has lost a block in the middle may get a higher number. The number is too high if the next block has
// as many members as the current block.
func (x *Index) Match(query []uint64, earlyExit bool, dst []Match) []Match {
	if len(query) == 0 {
		return dst
	}
	at := x.root.children.get(query[0])
	if at == nil || at.members.count == 0 {
		return dst
	}
	from := len(dst)
	active := &x.active
	active.copy(&at.members)
	depth := int32(1)
	for i := 1; i < len(query) && !(earlyExit && active.count == 1); i++ {
		next := at.children.get(query[i])
		if next == nil {
			break
		}
		if next.members.count != active.count {
			active.forEach(func(n int32) {
				if !next.members.has(n) {
					dst = append(dst, Match{x.members[n], depth})
				}
			})
			active.intersect(&next.members)
		}
		if active.count == 0 {
			break
		}
		at, depth = next, int32(i+1)
	}
	active.forEach(func(n int32) { dst = append(dst, Match{x.members[n], depth}) })
	sortMatches(dst[from:])
	return dst
}

// Has reports whether a member knows a block by the name seq.
func (x *Index) Has(m Member, seq uint64) bool {
	n, ok := x.number[m]
	return ok && x.lookup[n][seq] != nil
}

// Size returns the number of names by which members know blocks.
func (x *Index) Size() int {
	size := 0
	for _, names := range x.lookup {
		size += len(names)
	}
	return size
}

// MemberSize returns the number of blocks that a member caches.
func (x *Index) MemberSize(m Member) int {
	n, ok := x.number[m]
	if !ok {
		return 0
	}
	return len(x.lookup[n])
}

// forEach calls f for the root and every block below it, each before its descendants.
func (x *Index) forEach(f func(*block)) {
	seen := map[*block]bool{x.root: true}
	for stack := []*block{x.root}; len(stack) > 0; {
		b := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		f(b)
		b.children.forEach(func(c *block) { // any order
			if !seen[c] {
				seen[c] = true
				stack = append(stack, c)
			}
		})
	}
}

// Prune removes blocks that no worker caches. Blocks that no worker caches change no answer, but a long-lived index
// would keep them forever.
func (x *Index) Prune() {
	x.forEach(func(b *block) {
		b.children.keepIf(func(c *block) bool { return c.members.count > 0 || !c.children.isEmpty() })
	})
}

// Reachable returns, for each worker and rank, the number of blocks that queries can find. The counts are ordered by
// worker and rank.
func (x *Index) Reachable() []Match {
	counts := make([]int32, len(x.members))
	x.forEach(func(b *block) { b.members.forEach(func(n int32) { counts[n]++ }) })
	var found []Match
	for n, c := range counts {
		if c > 0 {
			found = append(found, Match{x.members[n], c})
		}
	}
	sortMatches(found)
	return found
}

func sortMatches(found []Match) {
	slices.SortFunc(found, func(a, b Match) int {
		return cmp.Or(cmp.Compare(a.Member.Worker, b.Member.Worker), cmp.Compare(a.Member.Rank, b.Member.Rank))
	})
}

// treeIndex is an Index for a dispatcher.
type treeIndex struct {
	tree  *prompt.Tree
	index *Index
	query []uint64
	found []Match
	lossy bool // unknown blocks are ignored, see forget
}

func newTreeIndex(tree *prompt.Tree) *treeIndex {
	return &treeIndex{tree: tree, index: NewIndex()}
}

func (x *treeIndex) grow(int) {}

func (x *treeIndex) observe(w sim.WorkerID, p *scheduler.Pass) error {
	for _, e := range p.Events {
		if e.Tier != scheduler.Device || e.Copy {
			continue // a router follows only blocks in device memory that a cache lookup finds
		}
		if err := x.ignoreLost(x.index.Apply(w, e)); err != nil {
			return err
		}
	}
	return nil
}

// match scores the prompt's blocks. Unique prompts have no blocks that a worker could have cached.
func (x *treeIndex) match(q *sim.Request, s *scores) {
	if q.Prompt.Unique() {
		return
	}
	x.query = x.tree.AppendLocal(x.query[:0], &q.Prompt)
	x.found = x.index.Match(x.query, false, x.found[:0])
	s.raiseMatches(x.found)
}
