package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
)

// pool is the KV blocks of the engine for the scheduler. Blocks of prompts and answers are segments, or single blocks
// (device) for observers of blocks, optionally with host memory (offloaded). With several groups of layers the pools
// are layered or grouped. A request holds the first r.blocks blocks of its list, of which lookups can find the first
// r.named; the pool updates both numbers.
type pool interface {
	blocks.Pool
	// hasRoom reports whether free blocks are enough for r, which holds none: for chunk first blocks now, and for
	// whole blocks in total. The first hits blocks of r are cached.
	hasRoom(r *request, hits, chunk, whole, free int) bool
	// holdHits adds r, which holds no blocks, as a holder of its first hits blocks, which are cached.
	holdHits(r *request, hits int)
	// takeBlocks allocates the missing blocks of the first blocks of r and reports whether there were enough. If
	// there are too few free blocks, takeBlocks allocates none or, without WholeAllocation, all free blocks.
	takeBlocks(r *request, blocks int) (enough bool)
	// nameBlocks names the first blocks of r, which holds them, so that they can be found.
	nameBlocks(r *request, blocks int)
	// stripBlocks releases all blocks of r, which may find the named ones again later.
	stripBlocks(r *request)
}

// supply is the numbers of KV blocks, which the pool updates.
type supply struct {
	usable int // blocks that requests can use
	free   int // blocks without holders
	cached int // free blocks that lookups can find
}

// held returns the number of blocks held by requests or by copies in progress.
func (n *supply) held() int { return n.usable - n.free }

// newPool returns the pool of c, which updates c.supply.
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

// deviceOnly is a device without host memory.
type deviceOnly struct {
	*device
	blocks.DeviceOnly
}
