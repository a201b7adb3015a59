// Package blocks is the common part of schedulers' KV blocks: the interface of a pool, the names of blocks in events,
// and host memory with its links.
//
// A pool uses device memory only, or device memory and host memory (tiered). Each scheduler package has its own pool
// for the device only, because every instruction per block counts there. The tiered pools use Host.
//
// Read blocks.go, then names.go. For host memory, read host.go, transfers.go, catalog.go, lineage.go and link.go.
package blocks

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Slot is the index of a request in its scheduler. Slots are reused, so 32 bits are enough: request ids have as many.
type Slot int32

// NoSlot is the Slot of no request.
const NoSlot Slot = -1

// Pool is the KV blocks of an engine as its scheduler sees them. The methods for host memory do nothing in a pool
// without host memory.
type Pool interface {
	// Begin advances the pool to now, the start of the pass p, and completes the transfers that have ended by then.
	// Begin returns the requests with all fetched blocks on the device, in order of their fetches. The caller puts
	// these requests at the head of the queue.
	Begin(now sim.Time, p *scheduler.Pass) (fetched []Slot)
	// Cached returns how many of the first blocks of s are cached on the device.
	Cached(s Slot) int
	// Fetch starts to load the blocks of s that are in host memory and follow its cached blocks on the device. The
	// request s is the head of the queue.
	Fetch(s Slot) Fetching
	// FromHost returns how many of the first tokens of s, which are cached, were fetched from host memory. FromHost
	// forgets fetched blocks after these tokens, because their tokens are computed again.
	FromHost(s Slot, tokens int) int
	// Release releases every block that s holds, last to first.
	Release(s Slot)
	// Forget drops all data of s after s has released its blocks and left the scheduler.
	Forget(s Slot)
	// Fetching is the number of requests that have left the queue until their blocks arrive.
	Fetching() int
	// Busy reports whether any transfer is in progress.
	Busy() bool
	// Linger extends a pass without duration and without output tokens to the end of the next transfer.
	Linger(p *scheduler.Pass)
	// Check panics if the counters of the pool do not agree with its blocks.
	Check()
}

// Fetching is the result of Fetch for the head of the queue.
type Fetching uint8

const (
	Ready   Fetching = iota // the request can be scheduled
	Parked                  // the request has left the queue until its blocks arrive
	Waiting                 // the request must wait for free blocks on the device or for another fetch
)

// Offload is the configuration of host memory for KV blocks. Blocks or BytesPerToken of 0 means no host memory.
type Offload struct {
	Blocks            int     // KV blocks in host memory
	BytesPerToken     int     // KV cache bytes per token
	BatchBlocks       int     // KV blocks per transfer to the host, and the maximum number of concurrent transfers; > 0
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
