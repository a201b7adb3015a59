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

// Limits of the lookups of queued requests in a pass.
const (
	looked       = 128 // requests; lpm does not sort a longer queue
	lpmShared    = 32  // tokens; a prompt with at most this many cached tokens may wait for a similar prompt
	refreshEvery = 32  // attempts to admit
)

// queue is the waiting requests and the state of their admission.
type queue struct {
	core     *Core
	waiting  scheduler.Line[*request]
	joins    int        // number of requests that joined the queue
	victims  []*request // requests preempted by the current plan
	ranked   []*request // scratch memory for the order of preemption
	full     bool       // no request is admitted until a request leaves
	attempts int        // attempts to admit under FIFO: every 32nd renews ages
	deferred int        // remaining passes without prompts, under DecodeInterval
	shuffles uint64     // number of shuffles of the queue, under Random
	counted  counted    // under HRRN
	sorted   sorted
}

// counted is the token counts that hrrn uses as a measure of time.
type counted struct {
	sum   int  // tokens of all planned passes
	batch int  // tokens of the latest prefill that started requests while no request ran; each decode pass adds it to sum
	last  int  // tokens of the latest prefill
	held  bool // requests were running when the latest pass was planned
}

// sorted is scratch memory for sorting.
type sorted struct {
	keys  []radix.Key // keys of the first pages of prompts to compute
	ahead []*request  // requests with the prompts of keys
}

// sortQueue sorts the queue by the policy. Lookups renew ages of cached pages. If the policy needs no lookup and
// eviction is by age, every 32nd attempt looks up the head of the queue to renew ages.
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

// shuffle sorts requests in a random order that depends on the seed, the requests, and the number of calls.
func (u *queue) shuffle(all []*request) {
	u.shuffles++
	for _, r := range all {
		r.rank = scheduler.DrawNumber(u.core.Seed, uint64(r.ID), u.shuffles)
	}
	slices.SortFunc(all, func(a, b *request) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.ID, b.ID)) })
}

// rankOf returns the sort key of r, highest first. For lpm the sort key is the number of cached tokens of r. For hrrn
// the sort key is the number of tokens computed while r waited, divided by the tokens that r needs. A postponed
// request has the lowest key.
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

// beginsAlike reports whether a request ahead of r begins with the same tokens. If no request ahead begins with the
// same tokens, beginsAlike adds r to the requests ahead.
func (u *queue) beginsAlike(r *request) bool {
	if u.ownPrompt(r.Request) < lpmShared {
		return false // the compared tokens include output tokens of r
	}
	if u.core.pages.tree.PerNode > 1 {
		// A node is a trace block, and different nodes differ in their first token.
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

// ownPrompt returns how many tokens of a prompt are known from its path. The known tokens are all tokens of the
// prompt, or only the full pages if tokens of an answer follow that was begun on another worker.
func (u *queue) ownPrompt(r *sim.Request) int {
	if full := int(r.Prompt.Blocks) * u.core.PageTokens; r.InputTokens >= full+u.core.PageTokens {
		return full
	}
	return r.InputTokens
}

// opening returns the part of r's prompt that beginsAlike compares.
func (u *queue) opening(r *request) prompt.Prompt {
	p := r.Prompt
	p.Nodes = p.Nodes[:min(len(p.Nodes), (lpmShared-1)/(u.core.PageTokens*int(u.core.pages.tree.PerNode))+1)]
	return p
}
