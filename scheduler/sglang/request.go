package sglang

import (
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
)

// request is the state of a request in the core.
//
// While the request runs, each decode pass gives it one token. The fields out and stored are as of decode pass base,
// and the core adds the later passes.
type request struct {
	*sim.Request
	seq    radix.Sequence
	maxOut int // maximum output tokens; 0 if the pool has room for none

	out     int   // tokens gained, as of base
	stored  int   // tokens with KV cache, as of base
	reached int   // tokens with KV cache when the last prefill of the request was planned
	base    int64 // number of decode passes planned before the request started to run
	epoch   int32 // changes when the request is preempted, retracted or removed; work planned for an older epoch is void

	node int32 // tree node that the request has locked, or root
	prot int   // tokens from the root down to node
	windowed
	hit int // cached tokens at the first admission; -1: not admitted yet

	// With speculative decoding, base is 0. sampled is the number of answer tokens computed by passes, including
	// tokens in flight. alloc is the number of tokens with allocated memory, or 0 before the first decode.
	sampled, alloc int

	lookup

	work      int  // tokens to compute, for shortest-prefill-first
	postponed bool // a similar prompt is computed first, for shortest-prefill-first

	sent    int      // prompt tokens that are in transfer to a decode worker, or have arrived
	arrives sim.Time // arrival of all sent tokens

	rank      float64  // sort key: for lpm and hrrn highest first, for random lowest first
	joined    int      // value of queue.joins when the request joined the queue
	queuedAt  int      // value of counted.sum when the request joined the queue
	place     int      // index in the list of running requests, or notRunning
	ending    bool     // the request's last token is in flight
	resumed   bool     // the request was admitted after a preemption or retraction
	lastToken sim.Time // time of the latest token, without the tokens of decode passes since base
}

// lookup is the result of looking up a request in the cache and the tiers behind it.
type lookup struct {
	looked   int      // length at the latest lookup for admission; 0: not looked up yet
	found    int      // tokens found by that lookup; 0 after a preemption
	fetch    *fetch   // fetch from storage; nil: none
	deadline sim.Time // end of the wait for the fetch; 0 if not set yet
	hostHit  int      // tokens of hit that were found only in host memory
	counted  int32    // pages that the request has added to the tree since its admission
}

const notRunning = -1

// asked returns the number of tokens that r will gain.
func (r *request) asked() int { return max(1, r.maxOut) }

// length returns the number of prompt and output tokens of a request that does not run.
func (r *request) length() int { return r.InputTokens + r.out }

// visit is a request with its epoch when something was planned for it.
type visit struct {
	*request
	epoch int32
}

// isVoid reports whether the request was preempted, retracted or removed since.
func (v visit) isVoid() bool { return v.request.epoch != v.epoch }

// flight is a planned pass: a batch of prompts, a token for each running request, both, or nothing.
type flight struct {
	batch   []chunk
	decodes int     // number of requests that decode
	lost    int     // number of decoding requests that were stopped since the pass was planned
	length  int     // total length of the decoding requests, in tokens
	joined  []visit // requests that decode for the first time since their start
	loaded  int     // tokens loaded from host memory
	planned bool
	// With speculative decoding: shares of the requests that decode, and whether the pass verifies their drafts.
	shares   []share
	verifies bool
}

// chunk is the part of a request in a prefill.
type chunk struct {
	visit
	before int  // tokens with KV cache before the pass
	tokens int  // tokens computed
	whole  bool // the prompt is complete after the pass
}

func (f *flight) clear() {
	*f = flight{batch: f.batch[:0], joined: f.joined[:0], shares: f.shares[:0]}
}
