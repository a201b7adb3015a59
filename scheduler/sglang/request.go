package sglang

import (
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
)

// request is a request's place in the core.
//
// While it runs, each decode pass gives it one token, so out and stored are those of
// decode pass base, and the core adds the passes since.
type request struct {
	*sim.Request
	seq    radix.Sequence
	maxOut int // tokens that memory is reserved for; 0 if the pool has room for none

	out     int   // tokens gained, at base
	stored  int   // tokens that it holds KV cache of, at base
	reached int   // tokens it held when its last prefill was planned
	base    int64 // decode passes planned when it began to run
	epoch   int32 // counts the times it lost its place; what was planned for an older one is void

	node int32 // tree node it has locked, or root
	prot int   // tokens down to node
	windowed
	hit int // tokens found at its first admission, -1 before

	// With speculative decoding base is 0. Tokens that passes have made of its answer, those in
	// flight among them, and tokens that it has places for, 0 before it decodes.
	sampled, alloc int

	lookup

	work      int  // by shortest-prefill-first: tokens to compute
	postponed bool // and whether another is to be computed first

	sent    int      // tokens of its prompt that are in transfer to a decode worker or there
	arrives sim.Time // when they all are there

	rank      float64  // what lpm and hrrn sort by, highest first, and random, lowest first
	joined    int      // the core's joins when it joined the queue
	queuedAt  int      // the sum of counted then
	place     int      // in the line of running requests, or notRunning
	ending    bool     // its last token is in flight
	resumed   bool     // it was admitted after it had lost its place
	lastToken sim.Time // the end of its last token, before those of decode passes since base
}

// lookup is the cached part of a request in the cache and behind it.
type lookup struct {
	looked   int      // its length when it was last looked up to be admitted, 0 before
	found    int      // the tokens that were found then; 0 since it lost its place
	fetch    *fetch   // from storage, nil: none
	deadline sim.Time // by which it must be there; 0 before a request waited for it, or while none is set
	hostHit  int      // of these, tokens found in host memory alone
	counted  int32    // pages that it has put into the tree since it was admitted
}

const notRunning = -1

// asked returns the number of tokens that r is to gain.
func (r *request) asked() int { return max(1, r.maxOut) }

// length returns the number of tokens of prompt and output, for a request that does
// not run.
func (r *request) length() int { return r.InputTokens + r.out }

// visit is a request as it was when something was planned for it.
type visit struct {
	*request
	epoch int32
}

// isVoid reports whether the request has lost its place since.
func (v visit) isVoid() bool { return v.request.epoch != v.epoch }

// flight is a pass that is planned: a batch of prompts, or a token for each running
// request, or nothing.
type flight struct {
	batch   []chunk
	decodes int     // requests that decode
	lost    int     // number of these that lost their place since it was planned
	length  int     // tokens of these
	joined  []visit // the decodes that are the first since their request began to run
	loaded  int     // tokens loaded from host memory
	planned bool
	// With speculative decoding: the requests that decode, and whether their drafts are verified.
	shares   []share
	verifies bool
}

// chunk is a request's share of a prefill.
type chunk struct {
	visit
	before int  // tokens that were there
	tokens int  // tokens computed
	whole  bool // its prompt is complete with them
}

func (f *flight) clear() {
	*f = flight{batch: f.batch[:0], joined: f.joined[:0], shares: f.shares[:0]}
}
