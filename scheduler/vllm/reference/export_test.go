package reference

import (
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// NewWithoutHost returns an engine with single KV blocks, as with host memory, and without transfers: its passes must
// equal those of New's engine.
func NewWithoutHost(cfg vllm.Config) *Core {
	c := New(cfg)
	c.cfg.Offload = blocks.Offload{BatchBlocks: 1}
	c.pool = newTiered(c)
	return c
}
