package trtllm

import (
	"github.com/replay-llm/replay/sim"
)

// state is how far a request is.
type state uint8

const (
	inContext  state = iota // the prompt is unfinished
	generating              // gains a token in each pass
	retiring                // its last token is in flight, known by its length
	done
)

// request is a request with what the engine knows of it.
type request struct {
	*sim.Request
	state state

	prompt int // prompt tokens; after a pause, those of the answer so far, too
	left   int // tokens to make after them
	limit  int // answer tokens that the request may have
	known  int // tokens of prompt and delivered answer

	pos    int // prompt tokens computed or found
	found  int // of these, found in the cache at admission
	chunk  int // prompt tokens of the pass that is planned
	expect int // prompt tokens that the capacity scheduler expects to be found
	slots  int // tokens with a KV slot
	loaded int // prompt tokens found in host memory at admission
	held   []holding
	blocks int // KV blocks that r holds

	rooted     int     // of these, those from the first one on that are in the tree, full: they stay there while r holds them
	rootedAt   blockID // the last of these, if there are any
	rootedHeld int     // how many of held they are

	seen    walk // the latest walk
	pauses  int
	pass    int64    // of the latest token
	lastAt  sim.Time // its instant
	arrived bool     // its prompt has been computed elsewhere and sent, and it has no blocks yet
	victim  bool     // closed by the plan in progress, paused when the pass before it has ended
}

// walk is what a request found in the tree of cached blocks.
type walk struct {
	stamp uint32 // of the pool, as are epoch and uses
	epoch uint32
	uses  int64
	known int // tokens that were looked up
	all   int // blocks found
	held  int // of these, held by a request
	far   int // of these, in host memory: of walkTokens alone
	last  blockID
}

func (r *request) given() int { return r.known - r.InputTokens }

// isFirstChunk reports whether nothing of the prompt has been computed yet.
func (r *request) isFirstChunk() bool { return r.pos == r.found }

func (r *request) rest() int { return r.prompt - r.pos }

// isStarted reports whether r has computed something that a pause would take.
func (r *request) isStarted() bool {
	return r.state == generating || r.state == retiring || r.state == inContext && !r.isFirstChunk()
}

// pause returns r to the state of a new request with its answer so far as part of the prompt.
func (r *request) pause() {
	g := r.known - r.prompt
	r.left -= g
	r.prompt += g
	r.state, r.pos, r.found, r.chunk, r.slots = inContext, 0, 0, r.prompt, 0
	r.pauses++
	r.victim = false
}
