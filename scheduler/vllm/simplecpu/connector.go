// Package simplecpu is vLLM's SimpleCPUOffloadConnector: copies of full blocks to host memory, lookups, and ends of
// copies (docs/rules/vllm.md, "SimpleCPUOffloadConnector"). The caller handles admission and the KV blocks of the
// device.
//
// Read connector.go, then memory.go.
package simplecpu

import (
	"slices"

	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm/host"
	"github.com/replay-llm/replay/sim"
)

// Connector is the scheduler side and the worker side of the connector.
type Connector struct {
	Flush    bool // the pass being planned preempts a request
	Finishes bool // blocks of ended requests are stored, since vLLM 0.33
	memory   Memory
	bytes    float64 // size of a block in bytes
	toHost   host.Link[*Job]
	toDevice host.Link[*Job]
	now      sim.Time // when the worker starts the latest pass that it got
	copied   []bool   // by block of the device: whether it is being copied
	store    *Job     // store of the pass being planned, or nil
	left     *Job     // store of requests that ended since the previous pass, or nil
	load     *Job     // load of the pass being planned, or nil
	running  []*Job   // transfers that were started and not reported as ended
}

// User is the connector's data of a request.
type User struct {
	Next   int          // index of the first block not yet offered
	Known  int          // number of blocks of the request that the connector knows
	Former []host.Block // blocks that the connector knew when the request was preempted, by the rules of vLLM 0.24
	pinned []int32      // blocks of host memory that were found and are not loaded yet
}

// Reset prepares u for another request.
func (u *User) Reset() { *u = User{Former: u.Former[:0], pinned: u.pinned[:0]} }

// Job is a transfer of the blocks of one pass in one direction.
type Job struct {
	Load   bool
	Places []host.Block // blocks of the device that a store copies
	Loads  []Load
	keys   []Key
	blocks []int32
}

// Load is the part of a request in a transfer to the device.
type Load struct {
	Of   *host.Request // nil if the request was cancelled
	Held []host.Block  // blocks that a cancelled request releases at the end of the transfer
}

// New returns a connector with empty host memory. A block has blockTokens tokens.
func New(o *blocks.Offload, blockTokens int, finishes bool) *Connector {
	return &Connector{
		Finishes: finishes, memory: NewMemory(o.Blocks), bytes: float64(blockTokens) * float64(o.BytesPerToken),
		toHost: host.NewLink[*Job](o.ToHostGBPerSecond), toDevice: host.NewLink[*Job](o.ToGPUGBPerSecond),
	}
}

// Unpin releases the blocks that the latest lookup of u found.
func (c *Connector) Unpin(u *User) {
	c.memory.dropHolders(u.pinned)
	u.pinned = u.pinned[:0]
}

// Lookup returns how many consecutive blocks u can load with indexes from `from` up to end. Lookup pins the found
// blocks until the next lookup.
func (c *Connector) Lookup(u *User, from, end int, key func(i int) Key) int {
	c.Unpin(u)
	for i := from; i < end; i++ {
		b, ok := c.memory.find(key(i))
		if !ok {
			break
		}
		u.pinned = append(u.pinned, b)
	}
	for _, b := range u.pinned {
		c.memory.hold(b)
	}
	return len(u.pinned)
}

// Load starts a load of the blocks that the lookup of u found, for r, with the pass being planned. Load reports
// whether a new transfer begins.
func (c *Connector) Load(u *User, r *host.Request) (begins bool) {
	if begins = c.load == nil; begins {
		c.load = &Job{Load: true}
		c.running = append(c.running, c.load)
	}
	c.load.Loads = append(c.load.Loads, Load{Of: r})
	c.load.blocks = append(c.load.blocks, u.pinned...)
	u.pinned = u.pinned[:0]
	return begins
}

// Orphan records that r was cancelled during its load. The blocks in held are released when the load has ended.
// Orphan returns false if r is not loading.
func (c *Connector) Orphan(r *host.Request, held []host.Block) bool {
	for _, j := range c.running {
		for i := range j.Loads {
			if j.Loads[i].Of == r {
				j.Loads[i] = Load{Held: slices.Clone(held)}
				return true
			}
		}
	}
	return false
}

// Offer describes the blocks of a request that are offered to host memory.
type Offer struct {
	Ready int                              // number of computed blocks
	At    func(i int) (host.Block, bool)   // returns block i of the request, or false if there is none
	Key   func(b host.Block) (Key, bool)   // returns false if the block has no name
	Hold  func(b host.Block, i int, k Key) // holds a block while it is being stored
	Ended bool                             // the request has ended
}

// Offer stores blocks of u that were not offered yet, until host memory is full. Offer reports whether a new transfer
// begins.
func (c *Connector) Offer(u *User, o *Offer) (begins bool) {
	room := c.memory.free
	if c.Finishes && room == 0 {
		return false
	}
	job := &c.store
	if o.Ended {
		job = &c.left
	}
	from := 0
	if *job != nil {
		from = len((*job).Places)
	}
	for ; u.Next < o.Ready; u.Next++ {
		b, ok := o.At(u.Next)
		if !ok {
			break
		}
		key, named := o.Key(b)
		if !named || c.isCopied(b) || c.has(key) {
			continue
		}
		if room == 0 {
			break
		}
		room--
		if *job == nil {
			*job, begins = &Job{}, c.store == nil && c.left == nil
		}
		(*job).Places, (*job).keys = append((*job).Places, b), append((*job).keys, key)
		o.Hold(b, u.Next, key)
	}
	if j := *job; j != nil {
		for range j.Places[from:] {
			j.blocks = append(j.blocks, c.memory.takeBlock())
		}
		for _, b := range j.Places[from:] {
			c.setCopied(b)
		}
	}
	return begins
}

func (c *Connector) has(key Key) bool {
	_, ok := c.memory.find(key)
	return ok
}

func (c *Connector) isCopied(b host.Block) bool { return int(b) < len(c.copied) && c.copied[b] }

func (c *Connector) setCopied(b host.Block) {
	if lack := int(b) + 1 - len(c.copied); lack > 0 {
		c.copied = append(c.copied, make([]bool, lack)...)
	}
	c.copied[b] = true
}

// Begin passes the planned pass to the worker at an instant, and returns when the pass may begin.
func (c *Connector) Begin(at sim.Time) sim.Time {
	c.now = max(c.now, at)
	if c.Flush {
		for _, j := range c.running {
			c.now = c.toDevice.EndOf(j, c.toHost.EndOf(j, c.now))
		}
	}
	c.Flush = false
	return c.now
}

// Finish completes the pass of Begin after the end of its computation is known. Finish appends the transfers that the
// pass reports as ended.
func (c *Connector) Finish(free sim.Time, done []*Job) []*Job {
	if j := c.load; j != nil {
		c.toDevice.Submit(j, c.now, float64(len(j.blocks))*c.bytes)
	}
	j := c.store
	if l := c.left; j == nil {
		j = l
	} else if l != nil {
		j.Places, j.keys, j.blocks = append(j.Places, l.Places...), append(j.keys, l.keys...), append(j.blocks, l.blocks...)
	}
	if j != nil {
		c.toHost.Submit(j, max(c.now, free), float64(len(j.blocks))*c.bytes)
		c.running = append(c.running, j)
	}
	c.store, c.left, c.load = nil, nil, nil
	return c.toHost.AppendEnded(c.toDevice.AppendEnded(done, c.now), c.now)
}

// Complete completes a transfer that a pass has reported as ended. Complete calls stored with each key that is newly
// in host memory.
func (c *Connector) Complete(j *Job, stored func(Key)) {
	c.running = slices.DeleteFunc(c.running, func(x *Job) bool { return x == j })
	for i, key := range j.keys {
		if c.memory.name(j.blocks[i], key) {
			stored(key)
		}
		c.copied[j.Places[i]] = false
	}
	c.memory.dropHolders(j.blocks)
}

// TakeRemoved returns the keys that were removed from host memory since the previous call. The list is valid until the
// next key is removed.
func (c *Connector) TakeRemoved() []Key {
	gone := c.memory.gone
	c.memory.gone = gone[:0]
	return gone
}

// IsQuiet reports whether the next pass starts no transfer.
func (c *Connector) IsQuiet() bool { return c.store == nil && c.left == nil && c.load == nil }

// Next returns when the next transfer ends after now; ok is false if there is none.
func (c *Connector) Next(now sim.Time) (end sim.Time, ok bool) {
	for _, l := range [...]*host.Link[*Job]{&c.toHost, &c.toDevice} {
		if at, has := l.Next(); has && at > now && (!ok || at < end) {
			end, ok = at, true
		}
	}
	return end, ok
}

// EachHeld calls count with the blocks of the device that transfers hold.
func (c *Connector) EachHeld(count func([]host.Block)) {
	for _, j := range append([]*Job{c.store, c.left}, c.running...) {
		if j == nil {
			continue
		}
		count(j.Places)
		for _, l := range j.Loads {
			count(l.Held)
		}
	}
}
