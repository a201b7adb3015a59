package reference

import (
	"iter"
	"slices"

	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// slot is the index of a request in Core.requests.
type slot = blocks.Slot

const none = blocks.NoSlot

// state is the state of a request.
type state uint8

const (
	gone      state = iota
	waiting         // the request is not admitted yet
	preempted       // preempted, and waiting again
	irregular       // running, and visited in every pass
	steady          // running and decoding: computed = length-1, allocated = length
)

func (s state) String() string {
	return [...]string{"gone", "waiting", "preempted", "irregular", "steady"}[s]
}

// request is a request and its block list. The list starts with the full blocks of the prompt; the first shared of
// them are named by content, as nodes of path. After the prompt's blocks the list has promoted blocks with generated
// tokens, and possibly a partial block.
type request struct {
	id            sim.RequestID
	input, output int // tokens

	state state
	queue queueID
	prev  slot
	next  slot
	order uint64 // number of the admission; running is sorted by order

	path   []prompt.NodeID
	shared int // number of full prompt blocks that are named by content
	full   int // number of full blocks, of the prompt and promoted
	part   bool

	// While a request is steady, length is its length at step base. The current length is length + step - base, and
	// the other numbers follow from that.
	base      int64
	length    int // number of prompt and generated tokens
	computed  int // number of tokens with KV; 0 after a preemption
	allocated int // number of tokens in held blocks
	furthest  int // maximum of computed so far

	wake int64 // step in which a steady request opens a block or ends

	// own counts the private full blocks, which no other request can find: blocks from index shared on.
	own span
	// A request that holds a part of its last node is in the node's list of partial holders.
	tail     prompt.NodeID
	tailHeld int
	tailPrev slot
	tailNext slot

	emitted   int64    // pass of the latest token; -1 before the first token
	emittedAt sim.Time // time of the latest token
	planned   int64    // pass to which plan belongs
	plan      share
}

// share is the work of a pass for one request.
type share struct {
	total, prompt, prefix int // numbers of tokens; prefix is the number of prompt tokens computed before
}

// init initializes s for request r.
func (s *request) init(r *sim.Request, cfg *vllm.Config) {
	*s = request{
		id: r.ID, input: r.InputTokens, output: r.OutputTokens,
		state: waiting, prev: none, next: none,
		full: r.InputTokens / cfg.BlockTokens, length: r.InputTokens, // can exceed the blocks in Prompt if the prompt contains tokens of an answer
		part: r.InputTokens%cfg.BlockTokens != 0,
		own:  span{seg: noSeg}, tail: prompt.None,
		emitted: -1, planned: -1,
	}
	if cfg.PrefixCaching && !r.Prompt.Unique() {
		s.shared = int(r.Prompt.Blocks)
		s.path = cfg.Tree.Full(&r.Prompt)
	}
}

// countBlocks returns the length of the block list.
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

// queueID identifies the queue that contains a request.
type queueID uint8

const (
	noQueue queueID = iota
	waitingQueue
	runningQueue
)

// queue is a doubly linked list of requests.
type queue struct {
	id    queueID
	front slot
	back  slot
	len   int
}

func newQueue(id queueID) queue { return queue{id: id, front: none, back: none} }

func (c *Core) pushBack(q *queue, s slot)  { c.insertBetween(q, q.back, s, none) }
func (c *Core) pushFront(q *queue, s slot) { c.insertBetween(q, none, s, q.front) }

// insertBetween inserts s into a queue between two neighbors; none means the front or the end.
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

// joinSlots makes next the successor of prev.
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

// inLine yields the waiting requests, then the running requests, in order.
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
