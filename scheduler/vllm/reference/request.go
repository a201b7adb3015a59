package reference

import (
	"iter"
	"slices"

	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// slot is a request's place in Core.requests.
type slot = blocks.Slot

const none = blocks.NoSlot

// state is where a request stands.
type state uint8

const (
	gone      state = iota
	waiting         // not admitted yet
	preempted       // lost its place; waiting again
	irregular       // running, and to be read in every pass
	steady          // running and decoding: computed = length-1, allocated = length
)

func (s state) String() string {
	return [...]string{"gone", "waiting", "preempted", "irregular", "steady"}[s]
}

// request is a request and its block list. The list is, in order: the prompt's
// full blocks (the first shared of them named by content, as nodes of path),
// then promoted blocks that hold generated tokens, then perhaps a partial one.
type request struct {
	id            sim.RequestID
	input, output int // tokens

	state state
	queue queueID
	prev  slot
	next  slot
	order uint64 // of admission; running is sorted by it

	path   []prompt.NodeID
	shared int // full prompt blocks named by content
	full   int // full blocks: prompt's and promoted
	part   bool

	// While steady, length stands for the step base: the request is length +
	// step - base long, the rest follows from that.
	base      int64
	length    int // prompt and generated tokens
	computed  int // tokens with KV; 0 after a preemption
	allocated int // tokens covered by the blocks held
	furthest  int // largest computed so far

	wake int64 // step in which a steady request opens a block or ends

	// own is the account of the full blocks that no other request can name:
	// blocks shared.. of the list.
	own span
	// A request that holds a part of its last node stands in that node's list.
	tail     prompt.NodeID
	tailHeld int
	tailPrev slot
	tailNext slot

	emitted   int64    // pass of the latest token, -1 before the first
	emittedAt sim.Time // its time
	planned   int64    // pass in which plan speaks of it
	plan      share
}

// share is what a pass computes for one request.
type share struct {
	total, prompt, prefix int // tokens; prefix of the prompt was there before
}

// init makes s the request r.
func (s *request) init(r *sim.Request, cfg *vllm.Config) {
	*s = request{
		id: r.ID, input: r.InputTokens, output: r.OutputTokens,
		state: waiting, prev: none, next: none,
		full: r.InputTokens / cfg.BlockTokens, length: r.InputTokens, // more than in its Prompt, where tokens of an answer follow
		part: r.InputTokens%cfg.BlockTokens != 0,
		own:  span{seg: noSeg}, tail: prompt.None,
		emitted: -1, planned: -1,
	}
	if cfg.PrefixCaching && !r.Prompt.Unique() {
		s.shared = int(r.Prompt.Blocks)
		s.path = cfg.Tree.Full(&r.Prompt)
	}
}

// countBlocks returns the number of blocks of the list.
func (s *request) countBlocks() int {
	if s.part {
		return s.full + 1
	}
	return s.full
}

// generated returns the number of tokens generated so far.
func (s *request) generated() int { return s.length - s.input }

// takeSlot returns a free slot.
func (c *Core) takeSlot() slot {
	if n := len(c.unused); n > 0 {
		s := c.unused[n-1]
		c.unused = c.unused[:n-1]
		return s
	}
	if len(c.requests) == cap(c.requests) {
		c.requests = slices.Grow(c.requests, 16+len(c.requests))
	}
	c.requests = append(c.requests, request{})
	return slot(len(c.requests) - 1)
}

// queueID is which queue a request is in.
type queueID uint8

const (
	noQueue queueID = iota
	waitingQueue
	runningQueue
)

// queue is a double-ended queue of requests, linked through them.
type queue struct {
	id    queueID
	front slot
	back  slot
	len   int
}

func newQueue(id queueID) queue { return queue{id: id, front: none, back: none} }

func (c *Core) pushBack(q *queue, s slot)  { c.insertBetween(q, q.back, s, none) }
func (c *Core) pushFront(q *queue, s slot) { c.insertBetween(q, none, s, q.front) }

// insertBetween puts s into a queue between two that stand there side by side,
// none outside of its ends.
func (c *Core) insertBetween(q *queue, prev, s, next slot) {
	r := &c.requests[s]
	r.queue, r.prev, r.next = q.id, prev, next
	c.joinSlots(q, prev, s)
	c.joinSlots(q, s, next)
	q.len++
}

func (c *Core) removeFrom(q *queue, s slot) {
	r := &c.requests[s]
	c.joinSlots(q, r.prev, r.next)
	r.queue, r.prev, r.next = noQueue, none, none
	q.len--
}

// joinSlots makes next follow prev.
func (c *Core) joinSlots(q *queue, prev, next slot) {
	if prev == none {
		q.front = next
	} else {
		c.requests[prev].next = next
	}
	if next == none {
		q.back = prev
	} else {
		c.requests[next].prev = prev
	}
}

// inLine yields the waiting and the running requests, in order.
func (c *Core) inLine() iter.Seq2[slot, *request] {
	return func(yield func(slot, *request) bool) {
		for _, q := range []queue{c.waiting, c.running} {
			for s := q.front; s != none; s = c.requests[s].next {
				if !yield(s, &c.requests[s]) {
					return
				}
			}
		}
	}
}
