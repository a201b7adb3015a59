package sglang

import (
	"cmp"
	"math"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Limits of what a pass looks up of the queue.
const (
	looked       = 128 // requests; lpm does not reorder a longer queue
	lpmShared    = 32  // tokens; a prompt cached up to here may wait for another's
	refreshEvery = 32  // attempts to admit
)

// queue is the requests in line, and their admission.
type queue struct {
	core     *Core
	waiting  scheduler.Line[*request]
	joins    int        // requests that joined it
	victims  []*request // preempted by the plan that is being made
	ranked   []*request // scratch for the order of preemption
	full     bool       // no request is admitted until one leaves
	attempts int        // to admit, under FIFO: every 32nd renews ages
	deferred int        // passes that are planned without prompts, under DecodeInterval
	shuffles uint64     // of the queue, under Random
	counted  counted    // under HRRN
	sorted   sorted
}

// counted is the tokens by which hrrn measures time.
type counted struct {
	sum   int  // of all passes that were planned
	batch int  // of the prefill with requests that came to an empty line: each decode pass counts it again
	last  int  // of the latest prefill
	held  bool // the line was not empty when the latest pass was planned
}

// sorted is the scratch of sorting.
type sorted struct {
	keys  []radix.Key // of the first pages of the prompts to be computed
	ahead []*request  // those requests
}

// sortQueue brings the queue into the policy's order. Lookups renew ages. If the policy needs no lookup and eviction is
// by age alone, every 32nd attempt looks up the head of the queue for that.
func (u *queue) sortQueue() {
	n := u.waiting.Len()
	all := u.waiting.All()
	switch {
	case u.core.Policy == Random:
		u.shuffle(all)
	case u.core.Policy == LOF:
		slices.SortStableFunc(all, func(a, b *request) int {
			return cmp.Or(u.comparePriority(a, b), cmp.Compare(b.maxOut, a.maxOut))
		})
	case u.core.Priorities.On:
		slices.SortFunc(all, u.comparePriority)
	}
	if n == 0 || !u.core.pages.caching {
		return
	}
	if u.core.Policy == ShortestPrefill {
		u.sorted.keys, u.sorted.ahead = u.sorted.keys[:0], u.sorted.ahead[:0]
		for _, r := range all {
			u.rankShortest(r)
		}
		slices.SortFunc(all, compareShortest)
		return
	}
	if (u.core.Policy == LPM || u.core.Policy == HRRN) && n <= looked {
		u.sorted.keys, u.sorted.ahead = u.sorted.keys[:0], u.sorted.ahead[:0]
		for _, r := range all {
			r.rank = u.rankOf(r)
		}
		slices.SortStableFunc(all, func(a, b *request) int {
			if order := cmp.Compare(b.rank, a.rank); order != 0 || u.core.Policy == LPM {
				return order
			}
			return cmp.Compare(a.ID, b.ID)
		})
		return
	}
	if u.core.Eviction.Policy != radix.LRU {
		return
	}
	if u.attempts++; u.attempts%refreshEvery != 1 {
		return
	}
	for i := min(n, looked) - 1; i >= 0; i-- {
		u.core.pages.touchPrefix(&all[i].seq, u.core.pages.pagesOf(all[i].length()))
	}
}

// shuffle puts requests in an order that depends on the seed, on them, and on how many times
// it was called.
func (u *queue) shuffle(all []*request) {
	u.shuffles++
	for _, r := range all {
		r.rank = scheduler.DrawNumber(u.core.Seed, uint64(r.ID), u.shuffles)
	}
	slices.SortFunc(all, func(a, b *request) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.ID, b.ID)) })
}

// rankOf returns the sort key of the queue, highest first: the cached tokens of r, or by hrrn the tokens that were
// computed while it waited over those it needs. A postponed request has the lowest key.
func (u *queue) rankOf(r *request) float64 {
	pages := u.core.pages.touchPrefix(&r.seq, u.core.pages.pagesOf(r.length()))
	cached := int(pages) * u.core.PageTokens
	if cached <= lpmShared && u.beginsAlike(r) {
		return -1
	}
	cached = min(cached+u.core.tiers.hostPrefix(), r.length()-1)
	if u.core.Policy == LPM {
		return float64(cached)
	}
	if cached >= r.InputTokens {
		return math.Inf(1)
	}
	return float64(u.counted.sum-r.queuedAt) / float64(r.InputTokens-cached)
}

// beginsAlike reports whether one of the requests ahead begins with the same tokens as
// r; if not, r joins them.
func (u *queue) beginsAlike(r *request) bool {
	if u.ownPrompt(r.Request) < lpmShared {
		return false // its own output is among the tokens that count
	}
	if u.core.pages.tree.PerNode > 1 {
		// A node is a trace block: other nodes differ from their first token on.
		key := r.seq.NodeKey((lpmShared - 1) / (int32(u.core.PageTokens) * u.core.pages.tree.PerNode))
		if slices.Contains(u.sorted.keys, key) {
			return true
		}
		u.sorted.keys = append(u.sorted.keys, key)
		return false
	}
	mine := u.opening(r)
	for _, o := range u.sorted.ahead {
		if u.core.Tree.Common(mine, u.opening(o), lpmShared, lpmShared) == lpmShared {
			return true
		}
	}
	u.sorted.ahead = append(u.sorted.ahead, r)
	return false
}

// ownPrompt returns how many tokens of a prompt its path knows for certain: all of them, or the
// full pages where tokens of an answer that was begun elsewhere follow.
func (u *queue) ownPrompt(r *sim.Request) int {
	if full := int(r.Prompt.Blocks) * u.core.PageTokens; r.InputTokens >= full+u.core.PageTokens {
		return full
	}
	return r.InputTokens
}

// opening returns the part of r's prompt that decides whether another begins alike.
func (u *queue) opening(r *request) prompt.Prompt {
	p := r.Prompt
	p.Nodes = p.Nodes[:min(len(p.Nodes), (lpmShared-1)/(u.core.PageTokens*int(u.core.pages.tree.PerNode))+1)]
	return p
}
