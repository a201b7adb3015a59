package trtllm

import (
	"github.com/replay-llm/replay/sim"
)

// state is the progress of a request.
type state uint8

const (
	inContext  state = iota // the prompt is not computed completely
	generating              // the request gains a token in each pass
	retiring                // the last token of the request by max_tokens is in flight
	done
)

// request is the engine's record of a request.
type request struct {
	*sim.Request
	state state

	prompt int // prompt tokens; after a pause, including the answer tokens so far
	left   int // remaining answer tokens after the input
	limit  int // maximum number of answer tokens
	known  int // prompt tokens and delivered answer tokens

	pos    int // prompt tokens computed or found
	found  int // prompt tokens that were found in the cache at admission
	chunk  int // prompt tokens in the planned pass
	expect int // prompt tokens that the capacity scheduler expects in the cache
	slots  int // tokens with a KV slot
	loaded int // prompt tokens found in host memory at admission
	held   []holding
	blocks int // number of KV blocks that r holds

	rooted     int     // number of first KV blocks that are full and in the tree; these blocks stay there while r holds them
	rootedAt   blockID // the last rooted block, if any
	rootedHeld int     // number of entries of held for rooted blocks

	seen    walk // result of the latest walk
	pauses  int
	pass    int64    // pass of the latest token
	lastAt  sim.Time // time of the latest token
	arrived bool     // the prompt was computed and sent by another worker, and the request has no blocks yet
	victim  bool     // the request was closed by the current plan, and is paused after the previous pass has ended
}

// walk is the result of looking up a request in the tree of cached blocks.
type walk struct {
	stamp uint32 // stamp of the pool at the time of the walk, like epoch and uses
	epoch uint32
	uses  int64
	known int // number of tokens that were looked up
	all   int // number of KV blocks found
	held  int // number of found blocks that a request holds
	far   int // number of held blocks in host memory; only set by walkTokens
	last  blockID
}

func (r *request) given() int { return r.known - r.InputTokens }

// isFirstChunk reports whether no token of the prompt has been computed yet.
func (r *request) isFirstChunk() bool { return r.pos == r.found }

func (r *request) rest() int { return r.prompt - r.pos }

// isStarted reports whether r has computed tokens that a pause would discard.
func (r *request) isStarted() bool {
	return r.state == generating || r.state == retiring || r.state == inContext && !r.isFirstChunk()
}

// pause resets r to the state of a new request. The answer of r so far becomes part of the prompt.
func (r *request) pause() {
	g := r.known - r.prompt
	r.left -= g
	r.prompt += g
	r.state, r.pos, r.found, r.chunk, r.slots = inContext, 0, 0, r.prompt, 0
	r.pauses++
	r.victim = false
}
