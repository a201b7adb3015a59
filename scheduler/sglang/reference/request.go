package reference

import (
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
)

// request is the state of a request in the core.
//
// While the request runs, each decode step gives it one token. The fields out and stored are as of decode step base,
// and the core adds the later steps.
type request struct {
	*sim.Request
	seq    radix.Sequence
	maxOut int

	out    int   // generated tokens, as of base
	stored int   // tokens with KV cache, as of base; in decode all tokens
	base   int64 // decode step of out and stored
	epoch  int32 // counts the starts and stops of the request; events of older epochs are void

	node   int32 // tree node that the request has locked, or root
	prot   int   // tokens from the root down to node
	cached int   // tokens that the request has inserted into the tree, in whole pages

	rank    int   // sort key of the queue, highest first
	place   int   // index in the running requests, or notRunning
	gone    bool  // the request was subtracted from the totals, and will be removed from the running requests
	joined  int64 // decode step after which the request started to run
	clipped bool  // the remaining output is larger than ClipNewTokens
	// growing is true once the request caches its pages in decode. The pages of a growing request after prot are not
	// in the tree yet, but count as cached.
	growing bool
	// stamped is the tick of its last walk over the tree, as of decode step stampedAt. Ticks of later walks are
	// computed from its index.
	stamped   int64
	stampedAt int64
	lastToken sim.Time // time of the last token, while the request does not run
}

const notRunning = -1

// length returns the number of prompt and output tokens of a request that does not run.
func (r *request) length() int { return r.InputTokens + r.out }

// left returns the remaining output tokens of a request that does not run.
func (r *request) left() int { return max(0, r.maxOut-r.out) }
