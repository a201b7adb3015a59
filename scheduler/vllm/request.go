package vllm

import (
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm/events"
	"github.com/replay-llm/replay/scheduler/vllm/host"
	"github.com/replay-llm/replay/scheduler/vllm/layers"
	"github.com/replay-llm/replay/scheduler/vllm/segment"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// slot is a request's place in Core.requests.
type slot = blocks.Slot

// state is where a request stands.
type state uint8

const (
	gone      state = iota
	waiting         // not admitted yet
	preempted       // lost its place; waiting again
	loading         // waits for blocks from host memory
	running         // and to be read in every plan
	steady          // running, and gains a token in every plan from since on
)

// request is a request with its blocks. What every pass reads comes first. While it is steady, target, computed and
// given are those before plan since.
type request struct {
	// target is the number of tokens with a value that is known or will be when the
	// passes in flight have ended; computed of them are computed by these
	// passes.
	target   int
	computed int
	input    int // prompt tokens
	end      int // target once every token is sampled
	given    int // tokens delivered

	pass    int64    // of the latest token; -1 before the first
	lastAt  sim.Time // its time
	plan    int64    // the plan that planned speaks of
	before  int64    // the one before it that computes something of it
	planned int32    // place in its shares
	slot    slot
	id      sim.RequestID
	state   state
	local   bool   // a decode worker computes its prompt
	midway  bool   // its latest share in a pass left tokens to compute
	since   int64  // first plan in which it is steady
	wake    int64  // plan in which it opens a block or samples its last token
	order   uint64 // of admission; running is sorted by it
	rank    rank

	keeping

	spec speculation

	offload *host.Request // what the connector keeps of it, or nil
}

// keeping is the blocks that a request has and had.
type keeping struct {
	path     []prompt.NodeID // names the first full blocks by content
	full     int             // full prompt blocks named by content in events
	shared   int             // of these, the ones that other requests can find
	blocks   int             // that it holds
	named    int             // of these, the first ones, which can be found
	passed   int             // and the first ones, of which groups with windows have let go
	furthest int             // largest computed that passes with prompts got to

	// held are the blocks of the request on a device, in order. A preempted request
	// keeps the list in former, to find the rest of it.
	held, former []blockID
	// holdings are the named blocks of the request in segments, in order; own is its blocks that only it can name and
	// find.
	holdings []segment.Holding
	own      segment.Layer
	sequence *layers.Sequence // has the same of several groups of layers
}

// rank orders requests by priority, then by arrival. In line, requests of one moment
// stand in the order in which they came; none of them loses its place before another.
type rank struct {
	priority int32
	number   uint64 // of the submission
	arrived  sim.Time
}

func (a *rank) before(b *rank) bool {
	return a.priority < b.priority || a.priority == b.priority && a.number < b.number
}

func (a *rank) lessUrgent(b *rank) bool {
	return a.priority > b.priority || a.priority == b.priority && a.arrived > b.arrived
}

func (r *request) init(s slot, q *sim.Request, cfg *Config) {
	*r = request{
		slot: s, id: q.ID, state: waiting, local: q.Local, input: q.InputTokens, target: q.InputTokens, end: q.InputTokens + q.OutputTokens,
		keeping: keeping{held: r.held[:0], former: r.former[:0], holdings: r.holdings[:0], sequence: r.sequence}, pass: -1, plan: -1, before: -1, rank: rank{priority: q.Priority, arrived: q.Arrived},
		spec: speculation{draws: q.DrawKey()},
	}
	if (cfg.PrefixCaching || cfg.Offload.Given()) && !q.Prompt.Unique() {
		r.full = int(q.Prompt.Blocks)
		r.shared, r.path = r.full, cfg.Tree.Full(&q.Prompt)
		if cfg.HashesAhead() { // by the token after a block, which must be one of the prompt
			r.shared, r.path = (q.InputTokens-1)/cfg.BlockTokens, q.Prompt.Nodes
		}
	}
}

// takeSlot returns a free slot.
func (c *Core) takeSlot() slot {
	if n := len(c.unused); n > 0 {
		s := c.unused[n-1]
		c.unused = c.unused[:n-1]
		return s
	}
	c.requests = append(c.requests, request{})
	return slot(len(c.requests) - 1)
}

// names returns what names the blocks of r in events.
func (r *request) names() events.Request {
	return events.Request{ID: r.id, Path: r.path, Full: r.full, Shared: r.shared}
}
