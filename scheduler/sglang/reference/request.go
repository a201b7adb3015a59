package reference

import (
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
)

// request is a request's place in the core.
//
// While it runs, each decode step gives it one token, so out and stored are
// those of decode step base and the core adds the steps since.
type request struct {
	*sim.Request
	seq    radix.Sequence
	maxOut int

	out    int   // tokens generated, at base
	stored int   // tokens that it holds KV cache of, at base; all of them in decode
	base   int64 // decode step
	epoch  int32 // counts its entries into the line of running requests and exits; older events are void

	node   int32 // tree node it has locked, or root
	prot   int   // tokens down to node
	cached int   // tokens it has put into the tree itself, whole pages

	rank    int   // what the queue is sorted by, highest first
	place   int   // in the line of running requests, or notRunning
	gone    bool  // it has left the sums over running requests, and soon the line
	joined  int64 // decode step after which it began to run
	clipped bool  // more output is left than memory is reserved for
	// growing is true once it caches its pages in decode: all it holds, those after
	// prot in pages that are not in the tree yet but count as if they were.
	growing bool
	// stamped is the tick of its last walk over the tree as of decode step
	// stampedAt; later walks follow from its place.
	stamped   int64
	stampedAt int64
	lastToken sim.Time // the end of its last token, while it does not run
}

const notRunning = -1

// length returns the number of tokens of prompt and output, for a request that does
// not run.
func (r *request) length() int { return r.InputTokens + r.out }

// left returns the output still to come, for a request that does not run.
func (r *request) left() int { return max(0, r.maxOut-r.out) }
