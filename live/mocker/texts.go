package mocker

import (
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/blockhash"
)

// texts has the tokens of the blocks of requests on the scheduler, for KV events with tokens. Only the worker's
// goroutine uses texts.
type texts struct {
	blockTokens int
	live        map[sim.RequestID]*text
	prompts     map[uint64]promptBlock // prompt blocks by the hash of their tokens
	own         map[uint64]ownBlock    // blocks of only one request, by name
}

// promptBlock is a block of the prompts of live requests.
type promptBlock struct {
	kvevents.Text
	requests int
}

// ownBlock is block i of the prompt and answer of one request.
type ownBlock struct {
	of *text
	i  int
}

// text is the prompt and the answer of a request.
type text struct {
	tokens []uint32 // the prompt, and the part of the answer that was drawn so far
	draw   sampler
	lora   string
	hashes []uint64 // hashes of the prompt's blocks
	prompt int      // number of full blocks of the prompt
	known  int      // number of blocks that can be looked up
	most   int      // number of full blocks of the prompt and the longest answer
}

// sampler draws tokens from a seed and all tokens before.
type sampler struct {
	seed    uint64
	context uint64 // hash of all tokens so far
}

// next draws the next token.
func (s *sampler) next() uint32 {
	const first, count = 1000, 1000
	t := first + uint32(blockhash.Chain(s.seed, s.context)%count)
	s.add(t)
	return t
}

// add adds a token to the hash for the next draw.
func (s *sampler) add(t uint32) {
	const prime = 0x100000001b3 // the prime of FNV-1a
	s.context = (s.context ^ uint64(t)) * prime
}

func newTexts(blockTokens int) *texts {
	return &texts{blockTokens, map[sim.RequestID]*text{}, map[uint64]promptBlock{}, map[uint64]ownBlock{}}
}

// addRequest adds the prompt blocks of a request, so that they can be looked up.
func (x *texts) addRequest(id sim.RequestID, t *text, limit int) {
	t.prompt = len(t.tokens) / x.blockTokens
	t.known, t.most = t.prompt, (len(t.tokens)+limit)/x.blockTokens
	for i, h := range t.hashes[:t.prompt] {
		p := x.prompts[h]
		if p.requests++; p.requests == 1 {
			p.Text = kvevents.Text{Tokens: t.tokens[i*x.blockTokens : (i+1)*x.blockTokens], LoRA: t.lora}
		}
		x.prompts[h] = p
	}
	x.live[id] = t
}

// removeRequest removes a request and its blocks.
func (x *texts) removeRequest(id sim.RequestID) {
	t := x.live[id]
	if t == nil {
		return
	}
	delete(x.live, id)
	for _, h := range t.hashes[:t.prompt] {
		if p := x.prompts[h]; p.requests > 1 {
			p.requests--
			x.prompts[h] = p
		} else {
			delete(x.prompts, h)
		}
	}
	for i := t.prompt; i < t.known; i++ {
		delete(x.own, blocks.OwnTokens(id, i))
	}
}

// aheadBlocks is the number of blocks by which each request is extended when a block is not found.
const aheadBlocks = 16

// of returns the tokens of a stored block, and whether the block is known.
func (x *texts) of(b scheduler.KVBlock) (kvevents.Text, bool) {
	if p, ok := x.prompts[b.Tokens]; ok {
		return p.Text, true
	}
	at, ok := x.own[b.Tokens]
	for more := true; !ok && more; at, ok = x.own[b.Tokens] {
		more = false
		for id, t := range x.live { // the order is irrelevant
			for to := min(t.most, t.known+aheadBlocks); t.known < to; t.known++ {
				x.own[blocks.OwnTokens(id, t.known)] = ownBlock{t, t.known}
				more = true
			}
		}
	}
	if !ok {
		return kvevents.Text{}, false
	}
	t, from, to := at.of, at.i*x.blockTokens, (at.i+1)*x.blockTokens
	for len(t.tokens) < to {
		t.tokens = append(t.tokens, t.draw.next())
	}
	return kvevents.Text{Tokens: t.tokens[from:to], LoRA: t.lora}, true
}
