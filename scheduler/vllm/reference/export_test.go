package reference

import (
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// NewWithoutHost returns an engine that manages single KV blocks as with host memory, but without transfers. The
// passes of this engine must equal those of the engine that New returns.
func NewWithoutHost(cfg vllm.Config) *Core {
	c := New(cfg)
	c.cfg.Offload = blocks.Offload{BatchBlocks: 1}
	c.pool = newTiered(c)
	return c
}
