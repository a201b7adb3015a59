// Package simplecpu is vLLM's SimpleCPUOffloadConnector: which full blocks are copied to host memory, which are found there, and
// when copies end (docs/rules/vllm.md, "SimpleCPUOffloadConnector"). Admission and the KV blocks of the device are the caller's.
//
// Read connector.go, then memory.go.
package simplecpu

import (
	"slices"

	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm/host"
	"github.com/replay-llm/replay/sim"
)

// Connector is both sides of the connector.
type Connector struct {
	Flush    bool // a request loses its place with the pass that is planned
	Finishes bool // blocks of requests that end are stored, as from 0.33 on
	memory   Memory
	bytes    float64 // of a block
	toHost   host.Link[*Job]
	toDevice host.Link[*Job]
	now      sim.Time // when the worker has taken what it was given so far
	copied   []bool   // by block of the device: it is being copied
	store    *Job     // of the pass that is planned, or nil
	left     *Job     // of requests that have ended since, or nil
	load     *Job     // of the pass that is planned, or nil
	running  []*Job   // that have begun and have not been reported
}

// User is what the connector keeps of a request.
type User struct {
	Next   int          // the first block that has not been offered
	Known  int          // blocks of the request that the connector knows
	Former []host.Block // that it knew when the request lost its place, by the rules of 0.24
	pinned []int32      // of host memory, which were found and are not loaded
}

// Reset makes u that of another request.
func (u *User) Reset() { *u = User{Former: u.Former[:0], pinned: u.pinned[:0]} }

// Job is a transfer: the blocks of one pass, in one direction.
type Job struct {
	Load   bool
	Places []host.Block // of the device, of a store
	Loads  []Load
	keys   []Key
	blocks []int32
}

// Load is the part of a request in a transfer to the device.
type Load struct {
	Of   *host.Request // nil: it was cancelled
	Held []host.Block  // that it releases at the end then
}

// New returns a connector to empty host memory for blocks of a number of tokens.
func New(o *blocks.Offload, blockTokens int, finishes bool) *Connector {
	return &Connector{
		Finishes: finishes, memory: NewMemory(o.Blocks), bytes: float64(blockTokens) * float64(o.BytesPerToken),
		toHost: host.NewLink[*Job](o.ToHostGBPerSecond), toDevice: host.NewLink[*Job](o.ToGPUGBPerSecond),
	}
}

// Unpin releases the blocks that a lookup of u has found.
func (c *Connector) Unpin(u *User) {
	c.memory.letGo(u.pinned)
	u.pinned = u.pinned[:0]
}

// Lookup returns how many blocks u can load from one on and before an end, and keeps them from eviction until the next lookup.
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

// Load begins to load what the lookup of u has found, for r, with the pass that is planned. It reports whether that begins a transfer.
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

// Orphan notes that r, which loads, is gone, and gives up blocks when that has ended. It reports whether r loads.
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

// Offer is blocks of a request that are offered to host memory.
type Offer struct {
	Ready int                              // blocks that are computed
	At    func(i int) (host.Block, bool)   // block i of the request; false where it has none
	Key   func(b host.Block) (Key, bool)   // false where the block has no name
	Hold  func(b host.Block, i int, k Key) // holds a block that is stored
	Ended bool                             // the request has ended
}

// Offer stores blocks of u that have not been offered, as many as there is room for. It reports whether that begins a transfer.
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

// Begin lets the worker take the pass that was planned, at an instant, and returns when the pass may begin.
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

// Finish ends what Begin began when it is known until when the device computes. It appends the transfers that the pass reports.
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

// Complete ends j, which a pass has reported as ended, and calls stored with each key that is in host memory from then on.
func (c *Connector) Complete(j *Job, stored func(Key)) {
	c.running = slices.DeleteFunc(c.running, func(x *Job) bool { return x == j })
	for i, key := range j.keys {
		if c.memory.name(j.blocks[i], key) {
			stored(key)
		}
		c.copied[j.Places[i]] = false
	}
	c.memory.letGo(j.blocks)
}

// TakeGone returns the keys that have left host memory since the call before. The list is valid until the next one leaves.
func (c *Connector) TakeGone() []Key {
	gone := c.memory.gone
	c.memory.gone = gone[:0]
	return gone
}

// IsQuiet reports whether the next pass begins no transfer.
func (c *Connector) IsQuiet() bool { return c.store == nil && c.left == nil && c.load == nil }

// Next returns when the next transfer ends after an instant; ok is false where none does.
func (c *Connector) Next(now sim.Time) (end sim.Time, ok bool) {
	for _, l := range [...]*host.Link[*Job]{&c.toHost, &c.toDevice} {
		if at, has := l.Next(); has && at > now && (!ok || at < end) {
			end, ok = at, true
		}
	}
	return end, ok
}

// EachHeld calls count with the blocks of the device that copies hold.
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
