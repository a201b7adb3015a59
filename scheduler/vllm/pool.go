package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
)

// pool is the KV blocks of the engine for the scheduler: segments of prompts and answers (segments), single blocks
// (device) for observers of blocks, optionally with host memory (offloaded), or either for several groups of layers
// (layered, grouped). A request holds the first r.blocks of its list of blocks, of which the first r.named can be
// found; both numbers are the pool's to keep.
type pool interface {
	blocks.Pool
	// hasRoom reports whether n free blocks are enough for r, which holds none: for a chunk of the first blocks of its
	// list now, and for all of them in the end. hits of them are cached.
	hasRoom(r *request, hits, chunk, whole, free int) bool
	// holdHits makes r, which holds none, a holder of its first blocks, which are cached.
	holdHits(r *request, hits int)
	// takeBlocks takes the missing blocks of the first blocks of r's list and reports whether there were enough.
	// Otherwise it takes none or, without WholeAllocation, all free blocks.
	takeBlocks(r *request, blocks int) (enough bool)
	// nameBlocks makes the first blocks of r, which holds them, ones that can be found.
	nameBlocks(r *request, blocks int)
	// stripBlocks takes all blocks from r, which may return for the ones that can be
	// found.
	stripBlocks(r *request)
}

// supply is how many KV blocks there are of each kind, which a pool keeps.
type supply struct {
	usable int // by requests
	free   int // not held
	cached int // of these, the ones that can be found
}

// held returns the number of blocks that requests, or copies in progress, hold.
func (n *supply) held() int { return n.usable - n.free }

// newPool returns the KV blocks of c, which keep c.supply.
func newPool(c *Core) pool {
	c.supply = supply{usable: c.cfg.UsableBlocks(), free: c.cfg.UsableBlocks()}
	switch {
	case c.cfg.Offload.Given(), c.cfg.Pull:
		return newOffloaded(c)
	case c.cfg.Windows.Given():
		if c.groups = newLayered(c); c.cfg.Capture == scheduler.CaptureEvents || c.drafts.ahead {
			c.groups = newGrouped(c)
		}
		return c.groups
	case c.cfg.Capture == scheduler.CaptureEvents, c.drafts.ahead:
		return deviceOnly{device: newDevice(c)}
	}
	return newSegments(c)
}

// deviceOnly is a device with nothing behind it.
type deviceOnly struct {
	*device
	blocks.DeviceOnly
}
