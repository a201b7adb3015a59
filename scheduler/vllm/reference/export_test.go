package reference

import (
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// NewWithoutHost returns an engine that keeps its KV blocks as one with host
// memory does, block by block, while nothing is ever sent there: it must do
// what New's engine does.
func NewWithoutHost(cfg vllm.Config) *Core {
	c := New(cfg)
	c.cfg.Offload = blocks.Offload{BatchBlocks: 1}
	c.pool = newTiered(c)
	return c
}
