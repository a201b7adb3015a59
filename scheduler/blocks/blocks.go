// Package blocks is the common part of schedulers' KV blocks: the contract of a pool, the names of blocks in events,
// and host memory with its links.
//
// A pool is on the device alone, or tiered: with host memory behind it. Pools on
// the device differ with the rules of the scheduler and are in its package, where
// every block costs a few instructions; the tiered ones are built on Host.
//
// Read blocks.go, then names.go; for host memory host.go with transfers.go,
// catalog.go, lineage.go and link.go.
package blocks

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Slot is a request's place in its scheduler. Slots are used again, so a worker
// never has more of them than there are request ids, which have as many bits.
type Slot int32

// NoSlot is the place of no request.
const NoSlot Slot = -1

// Pool is the KV blocks of an engine as its scheduler sees them. What concerns
// host memory does nothing in a pool that has none.
type Pool interface {
	// Begin brings the pool to now, the start of the pass p: transfers that have
	// ended by then arrive. It returns the requests with fetched blocks that have arrived, in order; the caller puts them at the
	// head of the queue.
	Begin(now sim.Time, p *scheduler.Pass) (fetched []Slot)
	// Cached returns how many of the first blocks of s are cached on the device.
	Cached(s Slot) int
	// Fetch starts to load the blocks that s, the head of the line, finds in host memory after its cached blocks on the
	// device.
	Fetch(s Slot) Fetching
	// FromHost returns how many of the first tokens of s, which are cached, were
	// fetched for it, and forgets those after them: they are computed anew.
	FromHost(s Slot, tokens int) int
	// Release releases every block that s holds, last to first.
	Release(s Slot)
	// Forget drops what is kept for s, which holds nothing and is gone.
	Forget(s Slot)
	// Fetching is the number of requests that are out of the line until their
	// blocks have come.
	Fetching() int
	// Busy reports whether something is being transferred.
	Busy() bool
	// Linger lets a pass that took no time and made no token last until the next
	// transfer ends.
	Linger(p *scheduler.Pass)
	// Check panics where the pool's accounts do not add up.
	Check()
}

// Fetching is the decision of host memory on the head of the line.
type Fetching uint8

const (
	Ready   Fetching = iota // it can be scheduled
	Parked                  // it is out of the line until its blocks have come
	Waiting                 // it must wait, for blocks on the device or for its turn
)

// Offload is host memory for KV blocks. There is none when Blocks or
// BytesPerToken is 0.
type Offload struct {
	Blocks            int     // KV blocks in host memory
	BytesPerToken     int     // KV cache bytes per token
	BatchBlocks       int     // KV blocks per transfer to the host, and such transfers at once; > 0
	ToHostGBPerSecond float64 // 10^9 bytes per second; 0: transfers take no time
	ToGPUGBPerSecond  float64 // 10^9 bytes per second; 0: transfers take no time
}

// Given reports whether there is host memory.
func (o *Offload) Given() bool { return o.Blocks > 0 && o.BytesPerToken > 0 }

// DeviceOnly is the part of Pool that does nothing without host memory.
type DeviceOnly struct{}

func (DeviceOnly) Begin(sim.Time, *scheduler.Pass) []Slot { return nil }
func (DeviceOnly) Fetch(Slot) Fetching                    { return Ready }
func (DeviceOnly) FromHost(Slot, int) int                 { return 0 }
func (DeviceOnly) Fetching() int                          { return 0 }
func (DeviceOnly) Busy() bool                             { return false }
func (DeviceOnly) Linger(*scheduler.Pass)                 {}
