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

// slot is the index of a request in Core.requests.
type slot = blocks.Slot

// state is the progress of a request.
type state uint8

const (
	gone      state = iota
	waiting         // the request is not admitted yet
	preempted       // preempted and waiting again
	loading         // waiting for blocks from host memory or another worker
	running         // running, and read in every plan
	steady          // running, and gains a token in every plan from since on
)

// request is a request with its blocks. Fields that every pass reads come first. For a steady request, target,
// computed and given are as of the plan before since.
type request struct {
	// target is the number of tokens with a value that is known, or will be after the passes in flight. computed is
	// the number of tokens computed after these passes.
	target   int
	computed int
	input    int // prompt tokens
	end      int // target after every token is sampled
	given    int // number of delivered tokens

	pass    int64    // pass of the latest token; -1 before the first
	lastAt  sim.Time // time of the latest token
	plan    int64    // plan of the latest share, for planned
	before  int64    // the previous plan with a share of this request
	planned int32    // index of the latest share in its plan
	slot    slot
	id      sim.RequestID
	state   state
	local   bool   // a decode worker computes the prompt
	midway  bool   // tokens remain to be computed after the latest share
	since   int64  // first plan in which the request is steady
	wake    int64  // plan in which the request opens a block or samples its last token
	order   uint64 // number of the admission; running is sorted by order
	rank    rank

	keeping

	spec speculation

	offload *host.Request // data of the connector; nil: none
}

// keeping is the data about the current and earlier blocks of a request.
type keeping struct {
	path     []prompt.NodeID // prompt nodes that name the first full blocks by content
	full     int             // full prompt blocks named by content in events
	shared   int             // number of full blocks that other requests can find
	blocks   int             // number of blocks that the request holds
	named    int             // number of first blocks that can be found
	passed   int             // number of first blocks that groups with windows have released
	furthest int             // maximum of computed in passes with prompts

	// held are the blocks of the request on a device, in order. A preempted request keeps them in former, to find the
	// remaining ones again.
	held, former []blockID
	// holdings are the named blocks of the request in segments, in order. own is the layer of blocks that only this
	// request can find.
	holdings []segment.Holding
	own      segment.Layer
	sequence *layers.Sequence // blocks in several groups of layers
}

// rank orders requests by priority, then by arrival. Requests with the same arrival are queued in the order of
// submission, and none of them is preempted before another.
type rank struct {
	priority int32
	number   uint64 // number of the submission
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
		if cfg.HashesAhead() { // a block is named by the next token, which must be a prompt token
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

// names returns the data for the names of r's blocks in events.
func (r *request) names() events.Request {
	return events.Request{ID: r.id, Path: r.path, Full: r.full, Shared: r.shared}
}
